"""Low-rank directions on the host, multiplied and added by the engine (LOZO, SubZero)."""

from collections.abc import Sequence
from typing import Any

import torch

from repro.methods.low_rank import LowRankNoise, Matrix
from repro.methods.noise import CPU_CHUNK, LatticeStep
from repro.methods.subspace import SubspaceNoise
from repro.ondevice.build import load, load_for
from repro.ondevice.noise import add_along, pass_along, require_supported


class EngineLowRankNoise(LowRankNoise):
    """``LowRankNoise`` with passes by the engine: U V' is computed while it is added.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=EngineLowRankNoise(rank=2))

    PyTorch draws U and V, and the engine the directions of vectors. PyTorch's number of threads
    share the work; no weight depends on it, nor on the instruction set.
    """

    def __init__(self, rank: int = 2, subspace_steps: int = 50, instructions: str = "auto") -> None:
        """Load the engine.

        Args:
            rank: see ``LowRankNoise``.
            subspace_steps: see ``LowRankNoise``.
            instructions: the instruction set; the best by default. No number depends on it.

        Raises:
            UsageError: a number is not a positive integer, or this machine has no such instruction
                set.
            EngineError: the engine is not built; the message says how to.
        """
        super().__init__(rank, subspace_steps)
        self.name = f"engine-{self.name}"
        self._instructions = instructions
        self._of_vectors = load_for(instructions).Noise("gaussian", instructions)

    def __reduce__(self) -> tuple[type, tuple[int, int, str]]:
        """Copy and pickle without the engine, which is loaded again."""
        return type(self), (self.rank, self.subspace_steps, self._instructions)

    def prepare(self, parameters: Sequence[torch.Tensor], *, exact: bool) -> None:  # noqa: ARG002
        """Raise ``UsageError`` for parameters off the host, or in another format."""
        require_supported(parameters)

    @torch.no_grad()
    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the parameters, in place."""
        threads = torch.get_num_threads()
        for matrix in self.matrices(parameters, seed):
            add_along(self._direction(matrix), matrix.weights, matrix.seed, 0, scale, threads)
        torch.autograd.graph.increment_version(parameters)  # autograd did not see it

    @torch.no_grad()
    def step_on_lattice_(
        self, parameters: Sequence[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
    ) -> None:
        """Do ``step`` along z(``seed``), in place.

        If any parameter is float32, PyTorch's operators do it for all, with PyTorch's noise for
        vectors.
        """
        if any(parameter.dtype == torch.float32 for parameter in parameters):
            super().step_on_lattice_(parameters, seed, step, chunk)
            return
        threads = torch.get_num_threads()
        for matrix in self.matrices(parameters, seed):
            noise = self._direction(matrix)
            pass_along(noise, matrix.weights, matrix.seed, step, CPU_CHUNK, threads)
        torch.autograd.graph.increment_version(parameters)

    def _direction(self, matrix: Matrix) -> Any:  # noqa: ANN401 - of a compiled module
        if matrix.factors is None:
            return self._of_vectors
        left, right = (factor.contiguous().numpy() for factor in matrix.factors)
        return load().Noise(left, right, self._instructions)


class EngineSubspaceNoise(EngineLowRankNoise, SubspaceNoise):
    """``SubspaceNoise`` with passes by the engine; see ``EngineLowRankNoise``.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=EngineSubspaceNoise(rank=16))
    """

    def __init__(
        self, rank: int = 16, subspace_steps: int = 50, instructions: str = "auto"
    ) -> None:
        """Load the engine; see ``EngineLowRankNoise``."""
        super().__init__(rank, subspace_steps, instructions)
