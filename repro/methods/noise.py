"""Where the perturbations of a walk come from."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.perturbation import KeptNoise, default_chunk, perturb_
from repro.methods.philox import PhiloxNoise

Pass = Callable[[torch.Tensor, int], None]
"""Changes weights, [n], in place along z of a seed. Threads call it at once, each of its own."""

_SEED_SPACE = 1 << 32
_ROUNDING = 1 << 31  # apart from the seeds of all noise of the same walk
_PART = 1 << 14
"""Elements; from twice that on PyTorch's operators have threads of their own."""


class Noise(Protocol):
    """Standard Gaussian noise z(seed) as long as all parameters together, drawn wherever needed."""

    name: str
    """What a log calls it, so that a replay draws the same."""

    def check(self, parameters: Sequence[torch.Tensor]) -> None:
        """Raise ``UsageError`` unless noise can be added to ``parameters``."""

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(seed) to the parameters, in place, each rounded to its own format."""

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Overwrite ``vector``, float32 [n], with the first n numbers of z(seed).

        One thread does so, as in a pass.
        """

    def moving(self, lattice: Lattice, before: int, after: int) -> Pass:
        """Return the pass over weights on ``lattice`` from ``before`` eps z to ``after`` of it."""

    def descending(self, lattice: Lattice, before: int, rate: float) -> Pass:
        """Return that to theta - ``rate`` z, rounded to the lattice at random."""

    def rest(self) -> None:
        """Free what the passes of a step share."""


AnyNoise = Noise | PhiloxNoise
"""What the methods take: noise for PyTorch's or the engine's passes, or with passes of its own."""


class TorchNoise:
    """PyTorch's generator of the parameters' device; see ``perturb_``."""

    name = "torch"

    def __init__(self, chunk: int | None = None) -> None:
        """Take the elements drawn from one seed; the numbers depend on it."""
        self.chunk = chunk
        self._kept = KeptNoise()

    def check(self, parameters: Sequence[torch.Tensor]) -> None:
        """Take any parameters."""

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Draw chunk by chunk, unless an earlier pass has kept the noise."""
        perturb_(parameters, seed, scale, self.chunk, self._kept)

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Draw into ``vector``, and keep nothing."""
        size = self.chunk or default_chunk(vector.device)
        generator = torch.Generator(vector.device)
        for index, part in enumerate(torch.split(vector, size)):
            part.normal_(generator=generator.manual_seed((seed + index) % _SEED_SPACE))

    def moving(self, lattice: Lattice, before: int, after: int) -> Pass:
        """Take PyTorch's operators."""
        return moving(self, lattice, before, after)

    def descending(self, lattice: Lattice, before: int, rate: float) -> Pass:
        """Take PyTorch's operators."""
        return descending(self, lattice, before, rate)

    def rest(self) -> None:
        """Forget the noise."""
        self._kept = KeptNoise()


def moving(noise: Noise, lattice: Lattice, before: int, after: int) -> Pass:
    """Return ``Noise.moving`` by PyTorch's operators, for any format and device."""

    def move(weights: torch.Tensor, seed: int) -> None:
        for part, z in _parts(weights, drawn(noise, weights, seed)):
            eps_z = lattice.noise(z)
            part.copy_(lattice.theta(part, eps_z, before).add_(eps_z, alpha=after))

    return move


def descending(noise: Noise, lattice: Lattice, before: int, rate: float) -> Pass:
    """Return ``Noise.descending`` by PyTorch's operators, for any format and device."""

    def descend(weights: torch.Tensor, seed: int) -> None:
        numbers = drawn(noise, weights, seed), thresholds(lattice, weights, seed)
        for part, z, up in _parts(weights, *numbers):
            eps_z = lattice.noise(z)
            theta = lattice.theta(part, eps_z, before)
            updated = theta.add_(eps_z.mul_(-rate / lattice.eps))  # two operations: no fused one
            part.copy_(lattice.round(updated, up))

    return descend


def drawn(noise: Noise, weights: torch.Tensor, seed: int) -> torch.Tensor:
    """Return z(seed), float32, as long as ``weights``."""
    normal = torch.empty(weights.shape, device=weights.device)
    noise.draw_(normal, seed)
    return normal


def thresholds(lattice: Lattice, weights: torch.Tensor, seed: int) -> torch.Tensor:
    """Return the random numbers in [0, 1) by which an update of ``weights`` is rounded."""
    generator = torch.Generator(weights.device).manual_seed((seed + _ROUNDING) % _SEED_SPACE)
    uniform = torch.empty(weights.shape, dtype=lattice.wide, device=weights.device)
    return uniform.uniform_(generator=generator)


def _parts(*vectors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Cut vectors of one length so that what is computed of a part stays in a host's cache."""
    size = _PART if vectors[0].device.type == "cpu" else max(1, len(vectors[0]))
    return zip(*(torch.split(vector, size) for vector in vectors), strict=True)


def noise_of_log(name: str, chunk: int | None, noise: AnyNoise | None) -> AnyNoise:
    """Return the noise that a log names, which the caller has to bring if it is not PyTorch's.

    Raises:
        UsageError: ``noise`` is another.
    """
    found = noise or TorchNoise(chunk)
    if found.name != name:
        msg = (
            f"a log of a run with the noise {name!r} cannot be replayed with {found.name!r}: give "
            f"replay the noise that the run had"
        )
        raise UsageError(msg)
    return found
