"""Times several arms in turns, so that what else the machine does falls on all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Step = Callable[[], object]


def in_turns(
    arms: Mapping[str, Step], turns: int, *, steps: int = 10, warm_up: int = 2
) -> dict[str, list[float]]:
    """Return the seconds a step of each arm takes, one mean for each turn.

    Every other turn goes through the arms backwards: a machine that slows down during a turn makes
    an arm longer than those before it in one and shorter in the next.

    Args:
        arms: a step of each, by name.
        turns: how often each arm has its turn; of an even number drift cancels best.
        steps: of a turn ...
        warm_up: ... and those before them, not counted, which find cold caches.
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
    """Return the median over turns of how many times as long ``slow`` takes as ``quick``."""
    return statistics.median(_by_turn(seconds, slow, quick))


def ratio_range(seconds: Mapping[str, list[float]], slow: str, quick: str) -> tuple[float, float]:
    """Return the least and the greatest of the turns' ratios, of which ``ratio`` is the median."""
    ratios = _by_turn(seconds, slow, quick)
    return min(ratios), max(ratios)


def _by_turn(seconds: Mapping[str, list[float]], slow: str, quick: str) -> list[float]:
    return [a / b for a, b in zip(seconds[slow], seconds[quick], strict=True)]
