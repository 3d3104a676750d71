"""Low-rank directions: z = U V' / sqrt(r) for each matrix (LOZO, arXiv 2410.07698)."""

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from repro.core.validation import require_positive_int
from repro.methods.lattice import Lattice
from repro.methods.noise import CUDA_CHUNK, PART, LatticeStep, Noise, thresholds
from repro.methods.parallel import parallel_for, threads_for


class Matrix(NamedTuple):
    """A parameter with its direction in one step."""

    weights: torch.Tensor
    """[rows, columns]; a vector is a matrix of one row."""
    seed: int
    """Its own in this step."""
    factors: tuple[torch.Tensor, torch.Tensor] | None
    """[rows, r] and [r, columns], float32, whose product is z; ``None`` for a vector."""


class Block(NamedTuple):
    """Rows of a matrix, or a part of one row; a vector is a matrix of one row."""

    weights: torch.Tensor
    """[rows, columns], contiguous."""
    left: torch.Tensor
    """Rows of U / sqrt(r), [rows, r]; [1, 1] holding 1 for a vector."""
    right: torch.Tensor
    """Columns of V', [r, columns]; the Gaussian z itself for a vector."""
    seed: int


class LowRankNoise(Noise):
    """z with the rank r in each matrix, and Gaussian in vectors.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=LowRankNoise(rank=2))

    U, [m, r], is Gaussian and new in every estimate; V, [n, r], is Gaussian and stays the same for
    ``subspace_steps`` steps (LOZO's lazy sampling). Convolutions count as matrices of one row for
    each output. A pass draws (m + n) r numbers instead of m n, and stores no state: all seeds of
    such a period share their upper 16 bits, from which V is drawn, so a log replays and a
    checkpoint resumes as with other noise.

    z has mean 0 and variance 1, so eps and the learning rate mean the same as in MeZO. LOZO
    perturbs by eps U V', which is larger by sqrt(r). To repeat a run of its authors' code, put the
    matrices into a parameter group of their own and multiply its eps by sqrt(r) and its learning
    rate by r.
    """

    def __init__(self, rank: int = 2, subspace_steps: int = 50) -> None:
        """Take r and the number of steps between two draws of V.

        Raises:
            UsageError: one of them is not a positive integer.
        """
        self.rank = require_positive_int("rank", rank)
        self.subspace_steps = require_positive_int("subspace_steps", subspace_steps)
        self.name = f"low-rank-{rank}"

    @torch.no_grad()
    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the parameters, in place."""

        def work(blocks: Iterator[Block]) -> None:
            for block in blocks:
                block.weights.add_(_direction(block), alpha=scale)

        self._share(parameters, seed, work)

    @torch.no_grad()
    def step_on_lattice_(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        step: LatticeStep,
        chunk: int | None,  # noqa: ARG002 - blocks follow the rows of the matrices
    ) -> None:
        """Do ``step`` along z(``seed``), in place."""
        lattices = {dtype: Lattice(dtype, step.eps) for dtype in {p.dtype for p in parameters}}

        def work(blocks: Iterator[Block]) -> None:
            for block in blocks:
                lattice = lattices[block.weights.dtype]
                up = [thresholds(lattice, block.weights, block.seed)] if step.is_update else []
                step.apply(lattice, block.weights, _direction(block), *up)

        self._share(parameters, seed, work)

    def _share(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        work: Callable[[Iterator[Block]], None],
    ) -> None:
        device = parameters[0].device
        size = PART if device.type == "cpu" else CUDA_CHUNK
        count = sum(parameter.numel() for parameter in parameters) // size
        blocks = self._blocks(parameters, seed, size)
        parallel_for(blocks, threads_for(device, count), work)

    def matrices(self, parameters: Sequence[torch.Tensor], seed: int) -> Iterator[Matrix]:
        """Yield each parameter with its direction in the step of ``seed``."""
        for index, parameter in enumerate(parameters):
            own = mixed(seed, index)
            if not parameter.numel():
                continue
            if parameter.ndim < 2:
                yield Matrix(parameter.view(1, -1), own, None)
            else:
                weights = parameter.view(len(parameter), -1)
                yield Matrix(weights, own, self.factors(weights, own, mixed(seed >> 16, ~index)))

    def _blocks(self, parameters: Sequence[torch.Tensor], seed: int, size: int) -> Iterator[Block]:
        """Cut each matrix into blocks of whole rows, or of parts of a row longer than ``size``.

        PyTorch's operators treat so few numbers in one thread, so their results do not depend on
        the number of threads.
        """
        for matrix, own, factors in self.matrices(parameters, seed):
            if factors is None:
                device = matrix.device
                for number, part in enumerate(torch.split(matrix, size, dim=1)):
                    z = gaussian(1, part.shape[1], (own + number) % (1 << 32), device)
                    yield Block(part, torch.ones(1, 1, device=device), z, own + number)
                continue
            left, right = factors
            rows = max(1, size // max(1, matrix.shape[1]))
            for top in range(0, len(matrix), rows):
                for begin in range(0, matrix.shape[1], size):
                    yield Block(
                        matrix[top : top + rows, begin : begin + size],
                        left[top : top + rows],
                        right[:, begin : begin + size],
                        own,
                    )
                    # the factors are drawn; from now on it only seeds the rounding of each block
                    own += 1

    def factors(
        self, matrix: torch.Tensor, step: int, period: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [m, r] and [r, n], float32, whose product is z of ``matrix``, [m, n].

        Args:
            matrix: the weights.
            step: seed of this matrix in this step.
            period: seed of this matrix in all steps of the period.
        """
        rows, columns = matrix.shape
        left = gaussian(rows, self.rank, step, matrix.device) / math.sqrt(self.rank)
        return left, gaussian(self.rank, columns, period, matrix.device)


def _direction(block: Block) -> torch.Tensor:
    """Return the block of z, float32 [rows, columns]: the sum of r outer products.

    A matrix product may sum in another order for another shape or number of threads.
    """
    z = block.left[:, :1] * block.right[:1]
    for k in range(1, len(block.right)):
        z.addcmul_(block.left[:, k : k + 1], block.right[k : k + 1])
    return z


def gaussian(rows: int, columns: int, seed: int, device: torch.device) -> torch.Tensor:
    """Return standard Gaussian numbers, float32 [rows, columns], drawn from ``seed``."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float32, device=device)


def mixed(seed: int, index: int) -> int:
    """Return a seed of 32 bits for one tensor; ``index`` is negative for its V."""
    return zlib.crc32(struct.pack("<Iq", seed, index))
