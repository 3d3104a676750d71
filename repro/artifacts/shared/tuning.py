"""Choose the learning rate of a grid."""

from collections.abc import Iterable

from repro.artifacts.base import Result
from repro.measurement.records import Record


def best_rate(grid: Iterable[Result | Record]) -> float | None:
    """Return the learning rate with the lowest loss on the held-out items; among equals, the first.

    ``None`` if no run of the grid came to its end.
    """
    ended = [run for run in grid if run.metrics.get("loss")]
    best = min(ended, key=lambda run: float(run.metrics["loss"][-1]), default=None)
    return None if best is None else float(best.point["lr"])
