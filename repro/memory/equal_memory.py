"""Search for settings in which three models take equal memory: claim A8 of the MeZO paper.

The paper states that three set-ups of its Fig. 4 take around 17 GB by its own formulas: GPT-2
medium by backpropagation, Llama 2 7B by MeZO with L'/L = 0.41 and Llama 2 13B with L'/L = 0.15.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.memory.analytic import AS_PRINTED, Float, Reading, Sizes, sizes_of
from repro.memory.shape import LLAMA2_7B, DecoderShape

TARGET_BYTES = 17e9
TOLERANCE_BYTES = 0.5e9
"""Largest deviation that still rounds to 17 GB."""

Mask = NDArray[np.bool_]


class Fig4SetUp(NamedTuple):
    """A model of Fig. 4 and how it is trained."""

    shape: DecoderShape
    live_fraction: float | None = None
    """L'/L of MeZO; without it the model is trained by backpropagation."""

    @property
    def method(self) -> Literal["bp", "mezo"]:
        """How it is trained."""
        return "bp" if self.live_fraction is None else "mezo"

    def peak(self, s: Sizes, reading: Reading = AS_PRINTED) -> Float:
        """Return the bytes of its training by equation (2) or (3)."""
        if self.live_fraction is None:
            return reading.bp_bytes(s)
        return reading.mezo_bytes(s, self.live_fraction * s.L)


_7B = replace(LLAMA2_7B, context=1024, batch=8)
SET_UPS = {
    "gpt2-medium": Fig4SetUp(replace(_7B, layers=24, hidden=1024, heads=16, vocabulary=50257)),
    "llama-7b": Fig4SetUp(_7B, 0.41),
    "llama-13b": Fig4SetUp(replace(_7B, layers=40, hidden=5120, heads=40), 0.15),
}
"""The set-ups of Fig. 4 (section 3) by model: GPT-2 medium (Radford et al. 2019) and two models of
Llama 2 (Touvron et al. 2023)."""


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


def search_settings(grid: Grid) -> dict[str, Any]:
    """Count the settings in the grid at which each of the three models takes ``TARGET_BYTES``.

    Returns:
        The number of settings ``searched``; ``published_fractions``, the number of solutions with
        the paper's L'/L for the two MeZO models; ``free_fractions``, the number with any L' from 0
        to L for each of them, by b; and if there is one, ``example``, the solution with free L'
        nearest to the paper's B = 8 and N = 1024.
    """
    sizes = [grid.sizes(set_up.shape) for set_up in SET_UPS.values()]
    bp, seven, thirteen = (
        _hits(set_up.peak(s)) for set_up, s in zip(SET_UPS.values(), sizes, strict=True)
    )
    fixed = bp & seven & thirteen
    _, small, large = sizes
    free = bp & _reachable(small) & _reachable(large)
    found = {
        "searched": bp.size,
        "published_fractions": int(fixed.sum()),
        "free_fractions": {
            f"{b:g}": int(free[index].sum()) for index, b in enumerate(grid.bytes_per_parameter)
        },
    }
    return found | {"example": _nearest(grid, free, small, large)} if free.any() else found


def bytes_per_parameter_for(shape: DecoderShape) -> float:
    """Return the b at which training ``shape`` by backpropagation takes ``TARGET_BYTES``.

    Equation (2) is linear in b, so two values of it give the line.
    """
    one, two = (float(AS_PRINTED.bp_bytes(sizes_of(shape, b))) for b in (1, 2))
    return 1 + (TARGET_BYTES - one) / (two - one)


def _hits(peak: NDArray[np.float64]) -> Mask:
    return np.asarray(np.abs(peak - TARGET_BYTES) <= TOLERANCE_BYTES)


def _reachable(s: Sizes) -> Mask:
    """Return where some L' between 0 and L gives the target."""
    smallest, largest = (AS_PRINTED.mezo_bytes(s, live) for live in (0, s.L))
    return np.asarray(
        (smallest <= TARGET_BYTES + TOLERANCE_BYTES) & (largest >= TARGET_BYTES - TOLERANCE_BYTES)
    )


def _nearest(grid: Grid, free: Mask, small: Sizes, large: Sizes) -> dict[str, float]:
    settings = np.argwhere(free)
    distance = np.abs(np.log((settings[:, 1] + 1) / 8)) + np.abs(
        np.log((settings[:, 2] + 1) / 1024)
    )
    b, batch, context = settings[distance.argmin()]

    def fraction(s: Sizes) -> float:
        full = np.broadcast_to(AS_PRINTED.layer_bytes(s) * s.L, free.shape)[b, batch, context]
        weights = np.broadcast_to(AS_PRINTED.weight_bytes(s), free.shape)[b, batch, context]
        return float(np.clip((TARGET_BYTES - weights) / full, 0, 1))

    return {
        "bytes_per_parameter": float(grid.bytes_per_parameter[b]),
        "batch": int(batch) + 1,
        "context": int(context) + 1,
        "live_fraction_7b": fraction(small),
        "live_fraction_13b": fraction(large),
    }
