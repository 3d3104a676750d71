"""Time several arms in turns, so that other work on the machine affects all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Step = Callable[[], object]


def in_turns(
    arms: Mapping[str, Step], turns: int, *, steps: int = 10, warm_up: int = 2
) -> dict[str, list[float]]:
    """Return the seconds a step of each arm takes, one mean for each turn.

    Every other turn runs the arms in reverse order. If the machine slows down steadily, an arm then
    comes late in one turn and early in the next, so the effects cancel.

    Args:
        arms: a function for one step of each arm, by name.
        turns: number of turns of each arm; with an even number, drift cancels best.
        steps: timed steps of a turn.
        warm_up: untimed steps before them, which warm the caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(turns):
        for name, step in list(arms.items())[:: -1 if turn % 2 else 1]:
            for _ in range(warm_up):
                step()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            seconds[name].append((time.perf_counter() - start) / steps)
    return seconds


def ratio(seconds: Mapping[str, list[float]], slow: str, quick: str) -> float:
    """Return the median over turns of the time of ``slow`` divided by the time of ``quick``."""
    return statistics.median(_by_turn(seconds, slow, quick))


def ratio_range(seconds: Mapping[str, list[float]], slow: str, quick: str) -> tuple[float, float]:
    """Return the smallest and the largest ratio of a turn; ``ratio`` is their median."""
    ratios = _by_turn(seconds, slow, quick)
    return min(ratios), max(ratios)


def _by_turn(seconds: Mapping[str, list[float]], slow: str, quick: str) -> list[float]:
    return [a / b for a, b in zip(seconds[slow], seconds[quick], strict=True)]
