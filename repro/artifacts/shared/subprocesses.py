"""Compute points in separate processes, and keep them if a run is killed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from repro.core.progress import progress
from repro.measurement.isolation import run_isolated
from repro.measurement.result_cache import ResultCache

Task = TypeVar("Task")
Metrics = dict[str, Any]


def run_in_subprocesses(
    title: str,
    function: Callable[[Task], Metrics],
    tasks: Sequence[Task],
    key: Callable[[Task], Mapping[str, Any]],
    *,
    label: Callable[[Task], str],
    store: ResultCache,
    workers: int,
    preload: Sequence[str],
) -> Iterator[tuple[Task, Metrics]]:
    """Yield each task with its value in the order given, taking what ``store`` has already.

    A value that names ``out_of_memory`` is not kept: next time there may be more.

    Args:
        title: of the progress bar.
        function: of one task, at the top level of a module.
        tasks: small, picklable and hashable.
        key: what tells the value of a task from others in ``store``.
        label: a few words on a task, for the progress.
        store: where values are kept.
        workers: how many processes run at a time.
        preload: modules to import once, for all processes.

    Raises:
        ReproError: a process died; finished points are kept.
        Exception: what ``function`` raised, as it is.
    """
    values = {task: store.get(key(task)) for task in tasks}
    missing = [task for task, value in values.items() if value is None]
    with progress(title, len(tasks)) as shown:
        for _ in range(len(tasks) - len(missing)):
            shown.advance("done before")
        for task, value in run_isolated(function, missing, workers=workers, preload=preload):
            if not value.get("out_of_memory"):
                store.put(key(task), value)
            values[task] = value
            shown.advance(label(task))
    for task in tasks:
        yield task, values[task] or {}
