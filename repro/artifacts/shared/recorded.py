"""Take results from earlier records, and compute only the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from repro.artifacts.base import Context, Result

Task = TypeVar("Task")


def recorded_or_made(
    results: Mapping[Task, Result],
    context: Context,
    make: Callable[[Sequence[Task]], Iterator[tuple[Task, dict[str, Any]]]],
) -> Iterator[Result]:
    """Yield every result with its metrics: the recorded ones first, then the others as made.

    Args:
        results: the tasks, each with its result; its metrics are those known before the task is
            done, such as its settings.
        context: holds the earlier records.
        make: does tasks, and yields each with its metrics, in any order.
    """
    missing = []
    for task, result in results.items():
        metrics = context.prior_results.metrics(
            result.kind, result.point, result.seed, result.metrics.get("settings")
        )
        if metrics is None:
            missing.append(task)
        else:
            yield replace(result, metrics={**metrics, **result.metrics})
    for task, metrics in make(missing) if missing else ():
        yield replace(results[task], metrics={**metrics, **results[task].metrics})
