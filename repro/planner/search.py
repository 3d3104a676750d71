"""The other way round: the longest context and the largest batch that fit."""

from collections.abc import Callable
from dataclasses import replace

from repro.planner.architecture import Architecture
from repro.planner.formula import estimate
from repro.planner.methods import Method
from repro.planner.setting import Setting

LARGEST_BATCH = 1 << 20
"""Where the search for a batch ends."""


def longest_context(a: Architecture, method: Method, s: Setting, budget: float) -> int:
    """Return the most tokens that fit, at most the model's positions; 0 if not even one fits."""
    return largest(
        lambda context: estimate(a, method, replace(s, context=context)).total <= budget,
        a.positions,
    )


def largest_batch(a: Architecture, method: Method, s: Setting, budget: float) -> int:
    """Return the most sequences that fit, at most ``LARGEST_BATCH``; 0 if not even one fits."""
    return largest(
        lambda batch: estimate(a, method, replace(s, batch=batch)).total <= budget, LARGEST_BATCH
    )


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number from 1 to ``limit`` that fits, or 0; what fits is monotone."""
    if fits(limit):
        return limit
    low, high = 0, limit  # low fits, or is 0; high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
