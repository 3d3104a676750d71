"""The walk of an estimate, theta -> theta + eps z -> theta - eps z -> theta, in two arithmetics."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol, get_args

import torch

from repro.core.validation import require_choice
from repro.methods.lattice import Lattice
from repro.methods.noise import AnyNoise, Noise, Pass
from repro.methods.perturbation import default_chunk
from repro.methods.philox import PhiloxNoise
from repro.methods.sharing import share, threads_for

Restore = Literal["rounded", "exact"]
"""How the walk ends: with the rounding errors of its sums, or with the very bits it began with."""

_SEED_SPACE = 1 << 32

_Piece = tuple[torch.Tensor, int]
"""The weights and the seed of a piece."""


class Walk(Protocol):
    """Passes over the weights; ``before`` and ``after`` say how many eps z they are off theta."""

    reversible: bool
    """Whether a walk leaves no trace, so that a replay makes only the updates."""

    def settle(self, parameters: Sequence[torch.Tensor]) -> None:
        """Make theta ready for the walk."""

    def move(self, parameters: Sequence[torch.Tensor], seed: int, before: int, after: int) -> None:
        """Go from theta + ``before`` eps z to theta + ``after`` eps z, z being that of ``seed``."""

    def descend(
        self, parameters: Sequence[torch.Tensor], seed: int, before: int, rate: float
    ) -> None:
        """Go from theta + ``before`` eps z to theta - ``rate`` z."""

    def rest(self) -> None:
        """Free what the passes of a step share."""


def make_walk(restore: Restore, eps: float, chunk: int | None, noise: AnyNoise) -> Walk:
    """Return the walk along ``noise`` that ends as ``restore`` says.

    Raises:
        UsageError: another name.
    """
    require_choice("restore", restore, get_args(Restore))
    if isinstance(noise, PhiloxNoise):
        return noise.walk(restore, eps)
    return ExactWalk(eps, chunk, noise) if restore == "exact" else RoundedWalk(eps, noise)


class RoundedWalk:
    """Noise is added in the weights' own format, as in the papers; each sum is rounded."""

    reversible = False

    def __init__(self, eps: float, noise: Noise) -> None:
        self.eps = eps
        self.noise = noise

    def settle(self, parameters: Sequence[torch.Tensor]) -> None:
        """Leave theta as it is.

        Raises:
            UsageError: the noise cannot be added to these parameters.
        """
        self.noise.check(parameters)

    def move(self, parameters: Sequence[torch.Tensor], seed: int, before: int, after: int) -> None:
        """Add the difference."""
        self.noise.add_(parameters, seed, (after - before) * self.eps)

    def descend(
        self, parameters: Sequence[torch.Tensor], seed: int, before: int, rate: float
    ) -> None:
        """Restore and update in one sum."""
        self.noise.add_(parameters, seed, -before * self.eps - rate)

    def rest(self) -> None:
        """Let the noise forget its numbers."""
        self.noise.rest()


class ExactWalk:
    """Weights on a lattice come back bit by bit, and updates are rounded stochastically to it.

    The noise is drawn for one tensor at a time, in pieces of ``chunk`` elements, and a pass takes a
    few such pieces of extra memory for each thread, whatever the model's size.
    """

    reversible = True

    def __init__(self, eps: float, chunk: int | None, noise: Noise) -> None:
        self.eps = eps
        self.chunk = chunk
        self.noise = noise

    @torch.no_grad()
    def settle(self, parameters: Sequence[torch.Tensor]) -> None:
        """Round theta to the lattice, to the nearest point.

        Raises:
            UsageError: a parameter's format has no wider one, or eps is too small for it, or the
                noise cannot be added to these parameters.
        """
        self.noise.check(parameters)
        lattices = self._lattices(parameters)
        for parameter in parameters:
            lattice = lattices[parameter.dtype]
            for weights in self._split(parameter):
                weights.copy_(lattice.round(weights.to(lattice.wide)))

    @torch.no_grad()
    def move(self, parameters: Sequence[torch.Tensor], seed: int, before: int, after: int) -> None:
        """Find theta and add the noise anew."""
        self._change(parameters, seed, lambda lattice: self.noise.moving(lattice, before, after))

    @torch.no_grad()
    def descend(
        self, parameters: Sequence[torch.Tensor], seed: int, before: int, rate: float
    ) -> None:
        """Find theta and round the update, up or down at random so that its mean is kept."""
        self._change(parameters, seed, lambda lattice: self.noise.descending(lattice, before, rate))

    def rest(self) -> None:
        """Do nothing: nothing is shared."""

    def _change(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        make: Callable[[Lattice], Pass],
    ) -> None:
        """Make the pass over each lattice; PyTorch's number of threads share the pieces."""
        passes = {dtype: make(lattice) for dtype, lattice in self._lattices(parameters).items()}

        def work(pieces: Iterator[_Piece]) -> None:
            for weights, own in pieces:
                passes[weights.dtype](weights, own)

        device = parameters[0].device
        size = self.chunk or default_chunk(device)
        pieces = sum(-(-parameter.numel() // size) for parameter in parameters)
        share(self._pieces(parameters, seed), threads_for(device, pieces), work)

    def _pieces(self, parameters: Sequence[torch.Tensor], seed: int) -> Iterator[_Piece]:
        """Yield the weights and the seed of each piece."""
        all_weights = (weights for parameter in parameters for weights in self._split(parameter))
        for index, weights in enumerate(all_weights):
            yield weights, (seed + index) % _SEED_SPACE

    def _split(self, parameter: torch.Tensor) -> Iterator[torch.Tensor]:
        flat, size = parameter.view(-1), self.chunk or default_chunk(parameter.device)
        return (flat[start : start + size] for start in range(0, flat.numel(), size))

    def _lattices(self, parameters: Sequence[torch.Tensor]) -> dict[torch.dtype, Lattice]:
        return {dtype: Lattice(dtype, self.eps) for dtype in {p.dtype for p in parameters}}
