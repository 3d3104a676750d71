"""Search for settings in which three models take equal memory: claim A8 of the MeZO paper.

The paper states that three set-ups of its Fig. 4 take around 17 GB by its own formulas: GPT-2
medium by backpropagation, Llama 2 7B by MeZO with L'/L = 0.41 and Llama 2 13B with L'/L = 0.15.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.core.validation import require_positive
from repro.memory.analytic import (
    Sizes,
    activation_bytes,
    bp_bytes,
    mezo_bytes,
    sizes_of,
    weight_bytes,
)
from repro.memory.shape import (
    FIG4_GPT2_MEDIUM,
    FIG4_LLAMA2_7B,
    FIG4_LLAMA2_13B,
    DecoderShape,
)

TARGET_BYTES = 17e9
TOLERANCE_BYTES = 0.5e9
"""Largest deviation that still rounds to 17 GB."""
LIVE_FRACTION_7B = 0.41
LIVE_FRACTION_13B = 0.15

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """The settings searched: every combination of the three."""

    bytes_per_parameter: tuple[float, ...] = (0.5, 1, 2, 4)
    """b: 4-bit, 8-bit, 16-bit, 32-bit."""
    largest_batch: int = 64
    """B goes from 1 to this."""
    largest_context: int = 4096
    """N goes from 1 to this, the context with which Llama 2 was trained."""

    def sizes(self, shape: DecoderShape) -> Sizes:
        """Return the sizes of ``shape`` at every setting of the grid, [b, B, N]."""
        return sizes_of(
            shape,
            np.array(self.bytes_per_parameter)[:, None, None],
            batch=np.arange(1, self.largest_batch + 1)[None, :, None],
            context=np.arange(1, self.largest_context + 1)[None, None, :],
        )


@dataclass(frozen=True)
class Solutions:
    """Numbers of settings in the grid at which every model takes the target memory."""

    searched: int
    published_fractions: int
    """Number with the paper's L'/L for the two MeZO models."""
    free_fractions: dict[str, int]
    """Number with any L' from 0 to L for each of them, by b."""
    example: dict[str, float] | None
    """The setting with free L' nearest to the paper's B = 8 and N = 1024, if there is one."""


def search(grid: Grid | None = None, target: float = TARGET_BYTES) -> Solutions:
    """Search the grid for settings at which all three models take ``target`` bytes.

    Raises:
        UsageError: ``target`` is not a finite positive number.
    """
    grid = grid or Grid()
    require_positive("memory target in bytes", target)
    bp = _hits(bp_bytes(grid.sizes(FIG4_GPT2_MEDIUM)), target)
    small, large = grid.sizes(FIG4_LLAMA2_7B), grid.sizes(FIG4_LLAMA2_13B)
    fixed = (
        bp
        & _hits(mezo_bytes(small, live_layers=LIVE_FRACTION_7B * FIG4_LLAMA2_7B.layers), target)
        & _hits(mezo_bytes(large, live_layers=LIVE_FRACTION_13B * FIG4_LLAMA2_13B.layers), target)
    )
    free = bp & _reachable(small, target) & _reachable(large, target)
    return Solutions(
        searched=bp.size,
        published_fractions=int(fixed.sum()),
        free_fractions={
            f"{b:g}": int(free[index].sum()) for index, b in enumerate(grid.bytes_per_parameter)
        },
        example=_nearest(grid, free, small, large, target),
    )


def bytes_per_parameter_for(shape: DecoderShape, target: float = TARGET_BYTES) -> float:
    """Return the b at which training ``shape`` by backpropagation takes ``target`` bytes.

    Equation (2) is linear in b, so two values of it give the line.
    """
    one, two = (float(bp_bytes(sizes_of(shape, b))) for b in (1, 2))
    return 1 + (target - one) / (two - one)


def _hits(peak: NDArray[np.float64], target: float) -> Mask:
    return np.asarray(np.abs(peak - target) <= TOLERANCE_BYTES)


def _reachable(s: Sizes, target: float) -> Mask:
    """Return where some L' between 0 and L gives the target."""
    weights = weight_bytes(s)
    smallest, largest = weights, weights + activation_bytes(s)
    return np.asarray(
        (smallest <= target + TOLERANCE_BYTES) & (largest >= target - TOLERANCE_BYTES)
    )


def _nearest(
    grid: Grid, free: Mask, small: Sizes, large: Sizes, target: float
) -> dict[str, float] | None:
    if not free.any():
        return None
    settings = np.argwhere(free)
    distance = np.abs(np.log((settings[:, 1] + 1) / 8)) + np.abs(
        np.log((settings[:, 2] + 1) / 1024)
    )
    b, batch, context = settings[distance.argmin()]

    def fraction(s: Sizes) -> float:
        full = np.broadcast_to(activation_bytes(s), free.shape)[b, batch, context]
        weights = np.broadcast_to(weight_bytes(s), free.shape)[b, batch, context]
        return float(np.clip((target - weights) / full, 0, 1))

    return {
        "bytes_per_parameter": float(grid.bytes_per_parameter[b]),
        "batch": int(batch) + 1,
        "context": int(context) + 1,
        "live_fraction_7b": fraction(small),
        "live_fraction_13b": fraction(large),
    }
