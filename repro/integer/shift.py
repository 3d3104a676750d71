"""NITI's shift policies: how far an accumulator is shifted, and with which rounding.

NITI's history has two algorithms (docs/integer.md): v1, used for the LeNet experiments, and v2,
used for the VGG experiments, whose 5/4/3 schedule ElasticZO follows. They share the rule for
gradients and differ in activations and errors.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.core.names import ShiftVersion
from repro.integer.rounding import (
    LARGEST,
    MAGNITUDE_BITS,
    largest_magnitude,
    magnitude_range,
    nearest,
    pseudo_stochastic,
)

_PIECE = 1 << 18
"""Accumulators rounded at a time, few enough to keep intermediate results small."""


@dataclass(frozen=True)
class ShiftPolicy:
    """The rule for activations and errors."""

    version: ShiftVersion
    rounding: Callable[[Tensor, int], Tensor]
    """Maps an accumulator and k to int8."""
    skips_one: bool
    """Whether a shift by one bit is replaced by a shift by two bits."""
    order_preserving: bool
    """Whether ``rounding`` is non-decreasing, so that ReLU and maxima may come before it."""

    def shift_of(self, largest: int) -> int:
        """Return k = R(m) - 7 for an accumulator of largest magnitude m; k <= 0 means a cast."""
        k = magnitude_range(largest) - MAGNITUDE_BITS
        return 2 if k == 1 and self.skips_one else k

    def narrow(self, accumulator: Tensor, k: int) -> Tensor:
        """Return the accumulator as int8: shifted by k, or cast if k <= 0.

        As in NITI, the cast wraps +128, whose R is 7, to -128. Intermediate results have at most
        ``_PIECE`` elements.
        """
        if k <= 0:
            return accumulator.to(torch.int8)
        pieces = torch.split(accumulator.flatten(), _PIECE)
        return torch.cat([self.rounding(piece, k) for piece in pieces]).view(accumulator.shape)

    def error(self, accumulator: Tensor) -> Tensor:
        """Return the error for the preceding layer as int8; NITI never uses its exponent."""
        return self.narrow(accumulator, self.shift_of(largest_magnitude(accumulator)))


POLICIES: dict[ShiftVersion, ShiftPolicy] = {
    "v1": ShiftPolicy("v1", pseudo_stochastic, skips_one=True, order_preserving=False),
    "v2": ShiftPolicy("v2", nearest, skips_one=False, order_preserving=True),
}


def gradient(accumulator: Tensor, bits: int, largest: int | None = None) -> Tensor:
    """Return a weight gradient as int8 of at most 2^bits in magnitude; NITI uses it as the update.

    k = R(m) - bits; zeros if R(m) = 0 (that is, for m = 1 too), a cast for k < 1, else P(a, k)
    (v2, StoShift of gradients). v1 has the same rule, except for k < 1, where it divides by zero.

    Args:
        accumulator: int32 or int64, any shape; or int8 from -127 to 127.
        bits: mu, the gradient's bit width, which acts as NITI's learning rate.
        largest: m, if known; by default the largest magnitude in ``accumulator``.
    """
    m = largest_magnitude(accumulator) if largest is None else largest
    if magnitude_range(m) == 0:
        return torch.zeros_like(accumulator, dtype=torch.int8)
    k = magnitude_range(m) - bits
    return pseudo_stochastic(accumulator, k) if k >= 1 else accumulator.to(torch.int8)


def descend_(weights: Tensor, update: Tensor) -> None:
    """Set weights to clip(weights - update), in place; both int8 (v2, WeightUpdate)."""
    moved = weights.to(torch.int16).sub_(update)
    weights.copy_(moved.clamp_(-LARGEST, LARGEST))
