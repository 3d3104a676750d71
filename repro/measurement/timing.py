"""Times several arms in turns, so that what else the machine does falls on all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Step = Callable[[], object]

STEPS = 10
"""Steps of one turn; the two before them, which find cold caches, are not counted."""


def in_turns(arms: Mapping[str, Step], turns: int) -> dict[str, list[float]]:
    """Return the seconds a step of each arm takes, one mean for each turn."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(turns):
        for name, step in arms.items():
            step()
            step()
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            seconds[name].append((time.perf_counter() - start) / STEPS)
    return seconds


def ratio(seconds: Mapping[str, list[float]], slow: str, quick: str) -> float:
    """Return the median over turns of how many times as long ``slow`` takes as ``quick``."""
    pairs = zip(seconds[slow], seconds[quick], strict=True)
    return statistics.median(a / b for a, b in pairs)
