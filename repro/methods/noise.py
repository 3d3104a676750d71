"""Draw perturbations and add them to weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from repro.methods.lattice import Lattice
from repro.methods.parallel import parallel_for, threads_for

Pass = Callable[[torch.Tensor, int], None]
"""Changes weights, [n], in place along z of a seed. Threads call it concurrently, each with its own
weights."""

CPU_CHUNK = 1 << 16
"""Elements per chunk, drawn from one seed, on the host."""
CUDA_CHUNK = 1 << 22
"""Elements per chunk on a GPU: kernel launches do not dominate, and a forward pass needs more
memory."""
SEED_SPACE = 1 << 32
"""Seeds of chunks are counted modulo this: PyTorch's generator on the host takes 32 bits."""
_ROUNDING = 1 << 31  # distinct from the seeds of all noise in the same step
PART = 1 << 14
"""Elements of a part; from twice as many on, PyTorch's operators use their own threads."""

_Piece = tuple[torch.Tensor, int]
"""The weights and the seed of a piece."""


@dataclass(frozen=True)
class LatticeStep:
    """A pass over weights on lattices, from theta + before eps z to theta + after eps z."""

    eps: float
    before: int
    after: float
    is_update: bool
    """Whether the result lies between lattice points and is rounded to one of them at random."""

    def apply(
        self, lattice: Lattice, weights: torch.Tensor, z: torch.Tensor, *up: torch.Tensor
    ) -> None:
        """Change ``weights`` in place along ``z``, float32 of the same shape.

        An update takes ``up``, the random numbers that round it (see ``thresholds``).
        """
        eps_z = lattice.noise(z)
        theta = lattice.theta(weights, eps_z, self.before)
        if self.is_update:  # not fused: that would round once and give other bits
            moved = lattice.round_up_above(theta.add_(eps_z.mul_(self.after)), *up)
        else:
            moved = theta.add_(eps_z, alpha=self.after)
        weights.copy_(moved)


class Noise(ABC):
    """A direction z(seed) as long as all parameters together, redrawn whenever it is needed.

    Its numbers have mean 0 and variance 1: standard Gaussian, random signs, or products. Sparse
    noise is 0 at some weights.
    """

    name: str
    """Its name in a log. A replay makes PyTorch's noise and the kernels' from it; any other must be
    given and have this name."""
    subspace_steps = 0
    """Number of steps whose seeds share their upper 16 bits; 0 if all seeds are independent."""

    def prepare(self, parameters: Sequence[torch.Tensor], *, exact: bool) -> None:  # noqa: B027
        """Raise ``UsageError`` unless noise can be added to ``parameters``; by default it can."""

    def agreed_chunk(self, chunk: int | None) -> int | None:
        """Return the number of elements with one seed, which a method gives as ``chunk``.

        Raises:
            UsageError: this noise was made with another number.
        """
        return chunk

    @abstractmethod
    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(seed) to the parameters, in place, each rounded to its own format."""

    @abstractmethod
    def step_on_lattice_(
        self, parameters: Sequence[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
    ) -> None:
        """Do ``step`` along z(seed), in place; every ``chunk`` elements have their own seed."""

    def shrink_on_lattice_(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        factor: float,
        eps: float,
        chunk: int | None,
    ) -> None:
        """Multiply weights on lattices of scale ``eps`` by ``factor``, in place.

        Each is rounded to its lattice at random; every ``chunk`` elements have their own seed.
        """
        for parameter in parameters:
            lattice = Lattice(parameter.dtype, eps)
            for weights in split(parameter, chunk or default_chunk(parameter.device)):
                uniform = thresholds(lattice, weights, seed)
                shrunk = weights.to(lattice.wide).mul_(factor)
                weights.copy_(lattice.round_up_above(shrunk, uniform))
                seed += 1

    def release(self) -> None:  # noqa: B027
        """Free the memory shared by the passes of a step, if there is any."""


class PiecewiseNoise(Noise):
    """Noise whose steps on a lattice are split into pieces, shared among PyTorch's threads."""

    @abstractmethod
    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Overwrite ``vector``, float32 [n], with the first n numbers of z(seed).

        It runs in one thread, as within a pass.
        """

    def lattice_pass(self, lattice: Lattice, step: LatticeStep) -> Pass:
        """Return ``step`` over weights of one format; this version uses PyTorch's operators."""

        def change(weights: torch.Tensor, seed: int) -> None:
            vectors = [weights, drawn(self, weights, seed)]
            if step.is_update:
                vectors.append(thresholds(lattice, weights, seed))
            # on the host, parts that fit in the processor's cache
            size = PART if weights.device.type == "cpu" else max(1, len(weights))
            for parts in zip(*(torch.split(vector, size) for vector in vectors), strict=True):
                step.apply(lattice, *parts)

        return change

    @torch.no_grad()
    def step_on_lattice_(
        self, parameters: Sequence[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
    ) -> None:
        """Do ``step`` along z(seed), in place; each piece has its own seed."""
        passes = {
            dtype: self.lattice_pass(Lattice(dtype, step.eps), step)
            for dtype in {p.dtype for p in parameters}
        }

        def work(pieces: Iterator[_Piece]) -> None:
            for weights, own in pieces:
                passes[weights.dtype](weights, own)

        device = parameters[0].device
        size = chunk or default_chunk(device)
        count = sum(-(-parameter.numel() // size) for parameter in parameters)
        parallel_for(self._pieces(parameters, seed, size), threads_for(device, count), work)

    def _pieces(self, parameters: Sequence[torch.Tensor], seed: int, size: int) -> Iterator[_Piece]:
        """Yield the weights and the seed of each piece."""
        all_weights = (weights for parameter in parameters for weights in split(parameter, size))
        for index, weights in enumerate(all_weights):
            yield weights, (seed + index) % SEED_SPACE


def default_chunk(device: torch.device) -> int:
    """Return the chunk size for parameters on ``device``."""
    return CUDA_CHUNK if device.type == "cuda" else CPU_CHUNK


def split(parameter: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """Yield flat views of ``parameter`` with ``size`` elements each, except the last."""
    flat = parameter.view(-1)
    return (flat[start : start + size] for start in range(0, flat.numel(), size))


def drawn(noise: PiecewiseNoise, weights: torch.Tensor, seed: int) -> torch.Tensor:
    """Return z(seed), float32, of the length of ``weights``."""
    normal = torch.empty(weights.shape, dtype=torch.float32, device=weights.device)
    noise.draw_(normal, seed)
    return normal


def thresholds(lattice: Lattice, weights: torch.Tensor, seed: int) -> torch.Tensor:
    """Return the random numbers in [0, 1) that round an update of ``weights``."""
    generator = torch.Generator(weights.device).manual_seed((seed + _ROUNDING) % SEED_SPACE)
    uniform = torch.empty(weights.shape, dtype=lattice.wide, device=weights.device)
    return uniform.uniform_(generator=generator)
