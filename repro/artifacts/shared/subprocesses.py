"""Compute points in separate processes, and keep finished ones if the run is interrupted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from repro.core.atomic import require_writable
from repro.core.leftovers import tidy
from repro.core.progress import progress
from repro.measurement.isolation import run_isolated
from repro.measurement.result_cache import ResultCache
from repro.training.run import TrainingRun
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

Task = TypeVar("Task")
Run = TypeVar("Run", bound=TrainingRun)
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
    preload: Sequence[str] = (),
) -> Iterator[tuple[Task, Metrics]]:
    """Yield each task with its value in the order given, reusing values in ``store``.

    A value with ``out_of_memory`` is not stored, as more memory may be free next time.

    Args:
        title: title of the progress bar.
        function: computes the value of one task; at the top level of a module.
        tasks: tasks to compute; small, picklable and hashable.
        key: returns a task's key in ``store``.
        label: returns a few words on a task, for the progress bar.
        store: cache of finished values.
        workers: maximum number of processes at a time.
        preload: modules to import once for all processes, besides that of ``function``.

    Raises:
        ReproError: a process died; finished points are kept.
        Exception: an exception of ``function``, unchanged.
    """
    values = {task: store.get(key(task)) for task in tasks}
    missing = [task for task, value in values.items() if value is None]
    with progress(title, len(tasks)) as advance:
        for _ in range(len(tasks) - len(missing)):
            advance("done before")
        modules = [function.__module__, *preload]
        for task, value in run_isolated(function, missing, workers=workers, preload=modules):
            if not value.get("out_of_memory"):
                store.put(key(task), value)
            values[task] = value
            advance(label(task))
    # only now: records are in the order of the tasks, processes end in any order
    for task in tasks:
        yield task, values[task] or {}


def train_in_subprocesses(
    title: str,
    runs: Sequence[Run],
    checkpoints: CheckpointStore,
    *,
    store: ResultCache,
    preload: Sequence[str],
    workers: int = 1,
) -> Iterator[tuple[Run, Metrics]]:
    """Train each run, and yield it with its metrics; then remove its checkpoint.

    A run that ran out of memory keeps it, to go on from there when more is free.

    By default one runs at a time, for runs whose times are results. The other arguments, and what
    is raised, are as for ``run_in_subprocesses``.
    """
    if not runs:
        return
    require_writable(checkpoints.directory)
    tidy(checkpoints.directory)
    done = run_in_subprocesses(
        title,
        train_run,
        [TrainingTask(run, checkpoints) for run in runs],
        lambda task: task.run.key(),
        label=lambda task: task.run.label(),
        store=store,
        workers=workers,
        preload=preload,
    )
    for run, (_, metrics) in zip(runs, done, strict=True):
        yield run, metrics
        if not metrics.get("out_of_memory"):
            checkpoints.checkpoint(run).remove()
