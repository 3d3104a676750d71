"""Search for the longest context and the largest batch that fit a budget."""

from collections.abc import Callable
from dataclasses import replace

from repro.memory.setting import Setting
from repro.memory.training_method import TrainingMethod
from repro.planner.architecture import Architecture
from repro.planner.formula import estimate

LARGEST_BATCH = 1 << 20
"""Upper limit of the search for a batch."""
LARGEST_CONTEXT = 1 << 20
"""Upper limit of the search for a context, for models without a number of positions."""
SECANTS = 12
"""Secant guesses before bisection, since secants may converge slowly where memory is not linear."""


def longest_context(a: Architecture, method: TrainingMethod, s: Setting, budget: float) -> int:
    """Return the most tokens that fit, at most the model's positions; 0 if not even one fits."""
    return largest(
        lambda context: estimate(a, method, replace(s, context=context)).total <= budget,
        a.positions,
    )


def largest_batch(a: Architecture, method: TrainingMethod, s: Setting, budget: float) -> int:
    """Return the most sequences that fit, at most ``LARGEST_BATCH``; 0 if not even one fits."""
    return largest(
        lambda batch: estimate(a, method, replace(s, batch=batch)).total <= budget, LARGEST_BATCH
    )


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number from 1 to ``limit`` that fits, or 0; ``fits`` must be monotone."""
    if fits(limit):
        return limit
    low, high = 0, limit  # low fits or is 0; high does not fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_by_secants(
    cost: Callable[[int], float], budget: float, limit: int, known: tuple[int, float]
) -> int:
    """Return the largest x with ``cost(x) <= budget``, or 0, with few evaluations of ``cost``.

    Args:
        cost: cost of a whole number from 1 to ``limit``; it grows with the number, mostly in
            proportion.
        budget: largest allowed cost.
        limit: the largest number.
        known: a number and its cost.
    """
    costs = dict([known])
    while True:
        low = max((x for x, y in costs.items() if y <= budget), default=0)
        high = min((x for x, y in costs.items() if y > budget), default=limit + 1)
        if high - low <= 1:
            return low
        guess = _secant(costs, budget) if len(costs) <= SECANTS else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        costs[guess] = cost(guess)


def _secant(costs: dict[int, float], budget: float) -> int:
    """Return where the line through the two points nearest to the budget meets it."""
    (x, y), (x0, y0) = sorted(
        [*costs.items(), (0, 0.0)], key=lambda point: (point[0] == 0, abs(point[1] - budget))
    )[:2]
    return x if y == y0 else int(x + (budget - y) * (x - x0) / (y - y0))
