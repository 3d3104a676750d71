"""Times several arms in turns, so that what else the machine does falls on all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Step = Callable[[], object]


def in_turns(
    arms: Mapping[str, Step], turns: int, *, steps: int = 10, warm_up: int = 2
) -> dict[str, list[float]]:
    """Return the seconds a step of each arm takes, one mean for each turn.

    Args:
        arms: a step of each, by name.
        turns: how often each arm has its turn.
        steps: of a turn ...
        warm_up: ... and those before them, not counted, which find cold caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(turns):
        for name, step in arms.items():
            for _ in range(warm_up):
                step()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            seconds[name].append((time.perf_counter() - start) / steps)
    return seconds


def ratio(seconds: Mapping[str, list[float]], slow: str, quick: str) -> float:
    """Return the median over turns of how many times as long ``slow`` takes as ``quick``."""
    pairs = zip(seconds[slow], seconds[quick], strict=True)
    return statistics.median(a / b for a, b in pairs)
