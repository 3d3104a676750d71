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
    """Yield every result with its metrics, in the order given.

    Args:
        results: the tasks, each with its result; its metrics are those known before the task is
            done, such as its settings.
        context: holds the earlier records.
        make: does tasks, and yields each with its metrics in the order given.
    """
    known = {
        task: context.prior_results.metrics(
            result.kind, result.point, result.seed, result.metrics.get("settings")
        )
        for task, result in results.items()
    }
    missing = [task for task, metrics in known.items() if metrics is None]
    made = make(missing) if missing else iter(())
    for task, result in results.items():
        metrics = known[task]
        if metrics is None:
            _, metrics = next(made)
        yield replace(result, metrics={**metrics, **result.metrics})
