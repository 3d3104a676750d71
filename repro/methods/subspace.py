"""Directions in random subspaces: z is a multiple of U Z V' (SubZero, arXiv 2410.08989)."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from repro.methods.low_rank import LowRankNoise, Matrix, gaussian, mixed


class SubspaceNoise(LowRankNoise):
    """z with the rank r in each matrix, within a subspace that lasts for many steps.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=SubspaceNoise(rank=16))

    U, [m, r], and V, [n, r], have orthonormal columns and stay the same for ``subspace_steps``
    steps; Z, [r, r], is Gaussian and new in every estimate. In a matrix with fewer than r rows or
    columns, r is that number. Vectors get Gaussian directions. U and V are kept, (m + n) r numbers
    in float32 for each matrix, because making them takes longer than a step's passes.

    z is U Z V' times sqrt(m n) / r, so that it has mean 0 and variance 1, as in MeZO. SubZero
    leaves this factor out: to repeat a run of its authors' code, divide its eps by this factor and
    its learning rate by the factor's square, for each matrix in a parameter group of its own.
    """

    def __init__(self, rank: int = 16, subspace_steps: int = 50) -> None:
        """Take r and the number of steps between two draws of U and V.

        Raises:
            UsageError: one of them is not a positive integer.
        """
        super().__init__(rank, subspace_steps)
        self.name = f"subspace-{self.rank}"
        self._period = -1
        self._bases: dict[tuple[int, int, torch.device], torch.Tensor] = {}

    def factors(
        self, matrix: torch.Tensor, step: int, period: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sqrt(m n) / r U Z, [m, r], and V', [r, n], float32."""
        rows, columns = matrix.shape
        rank = min(self.rank, rows, columns)
        left = self._basis(rows, rank, mixed(period, 0), matrix.device)
        right = self._basis(columns, rank, mixed(period, 1), matrix.device)
        core = gaussian(rank, rank, step, matrix.device) * (math.sqrt(rows * columns) / rank)
        # a product of matrices may sum in another order with another number of threads
        turned = left[:, :1] * core[:1]
        for k in range(1, rank):
            turned += left[:, k : k + 1] * core[k : k + 1]
        return turned, right.T

    def matrices(self, parameters: Sequence[torch.Tensor], seed: int) -> Iterator[Matrix]:
        """Yield each parameter with its direction; a new period has new subspaces."""
        if self._period != seed >> 16:
            self._period, self._bases = seed >> 16, {}
        return super().matrices(parameters, seed)

    def _basis(self, rows: int, rank: int, seed: int, device: torch.device) -> torch.Tensor:
        """Return ``rank`` orthonormal columns, float32 [rows, rank], made once a period."""
        key = seed, rows, device  # the model may move within a period
        if key not in self._bases:
            self._bases[key] = _orthonormal(rows, rank, seed).to(device)
        return self._bases[key]


def _orthonormal(rows: int, rank: int, seed: int) -> torch.Tensor:
    """Make Gaussian columns orthonormal by Gram and Schmidt, twice against rounding errors.

    NumPy's sums do not depend on the number of threads, as LAPACK's factorization may.
    """
    columns = gaussian(rank, rows, seed, torch.device("cpu")).double().numpy()
    for k, column in enumerate(columns):
        for before in [*columns[:k]] * 2:
            column -= (before * column).sum() * before
        column /= math.sqrt((column * column).sum())
    return torch.from_numpy(columns.T.astype(np.float32))
