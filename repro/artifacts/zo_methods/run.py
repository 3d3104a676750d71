"""Measure the step of each arm, tune its learning rate, and train it.

Kinds of results, each with ``task`` and ``arm`` in its point:

- ``step``: the cost of a step in forward passes, by FLOPs, and its peak memory.
- ``grid``: a run at one learning rate, ``lr`` in the point, evaluated at its end on held-out items.
- ``run``: the curve of a run at the best learning rate, by evaluation: ``steps``,
  ``forward_passes``, ``seconds``, ``cpu_seconds``, ``accuracy``, ``loss``. ``at_edge`` says whether
  the rate is an end of its grid, ``settings`` holds all settings but the seed. If every rate
  diverged there is only ``divergence``.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.artifacts.zo_methods import Config
from repro.artifacts.zo_methods.arms import ARMS
from repro.artifacts.zo_methods.training import MethodRun, kind_of, measure_cost
from repro.core.errors import ReproError
from repro.core.leftovers import tidy
from repro.data.text.task import SPLITS
from repro.data.text.tasks import get_task
from repro.finetuning.base_models import fingerprint
from repro.training.run import TrainingRun
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

_PRELOAD = ["repro.training.trainer", "repro.artifacts.zo_methods.training"]


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result; an interrupted run resumes from its last checkpoint.

    Raises:
        ReproError: data or the model cannot be obtained, a process died, or a step of an arm
            exceeds the memory.
    """
    for task in config.tasks:
        yield from _compared(config, task, context)


def _compared(config: Config, task: str, context: Context) -> Iterator[Result]:
    """Yield the results of one task: the steps of all arms, their grids, their runs."""
    kind = kind_of(task)
    bases = [_base_run(config, task, arm) for arm in config.arms if kind in ARMS[arm].rates]
    costs: dict[str, dict[str, Any]] = {}
    for base, cost in _in_processes(f"{task}: steps", measure_cost, bases, context):
        if "out_of_memory" in cost:
            msg = f"{cost['out_of_memory']}; leave the arm out, or take a smaller batch"
            raise ReproError(msg)
        costs[base.arm] = cost
        yield Result("step", _point(base), cost)
    whole = [
        replace(base, steps=max(1, int(config.forwards(kind) / costs[base.arm]["forwards"])))
        for base in bases
    ]
    grids: dict[str, list[Result]] = {base.arm: [] for base in bases}
    tuned = [
        replace(base, tuning=True, lr=lr)
        for base in whole
        for lr in ARMS[base.arm].grid(kind, config.rates)
    ]
    for one, metrics in _trained(f"{task}: learning rates", tuned, context):
        grids[one.arm].append(Result("grid", {**_point(one), "lr": one.lr}, metrics))
        yield grids[one.arm][-1]
    lrs = {arm: best(grid) for arm, grid in grids.items()}
    for base in whole:
        if lrs[base.arm] is None:
            reason = f"every learning rate of {len(grids[base.arm])} diverged"
            sys.stderr.write(f"{ARMS[base.arm].label} on {task}: {reason}\n")
            for seed in config.seeds:
                yield Result("run", _point(base), {"divergence": reason}, seed)
    runs = [
        replace(base, lr=lr, seed=seed)
        for base in whole
        if (lr := lrs[base.arm]) is not None
        for seed in config.seeds
    ]
    for one, metrics in _trained(f"{task}: training", runs, context):
        rates = ARMS[one.arm].grid(kind, config.rates)
        forwards = costs[one.arm]["forwards"]
        found = {
            "forward_passes": [steps * forwards for steps in metrics["steps"]],
            "at_edge": len(rates) > 1 and one.lr in (rates[0], rates[-1]),
            "settings": {name: value for name, value in one.as_dict().items() if name != "seed"},
        }
        yield Result("run", _point(one), metrics | found, one.seed)


def _point(run: MethodRun) -> dict[str, Any]:
    return {"task": run.task, "arm": run.arm}


def best(grid: Sequence[Result]) -> float | None:
    """Return the learning rate with the lowest loss on the held-out items.

    ``None`` if every run diverged.
    """
    ended = [result for result in grid if result.metrics["loss"]]
    found = min(ended, key=lambda result: float(result.metrics["loss"][-1]), default=None)
    return None if found is None else float(found.point["lr"])


def _base_run(config: Config, task: str, arm: str) -> MethodRun:
    """Return the run whose steps, learning rate and seed are still to be set."""
    base = MethodRun(
        task=task,
        arm=arm,
        lr=1e-9,
        eps=config.image_eps,
        batch=config.image_batch,
        steps=1,
        evaluations=config.evaluations,
        evaluated_items=config.evaluated_items,
        tuning_items=config.tuning_items,
        train_items=config.image_items,
        seed=0,
        threads=config.threads,
    )
    if kind_of(task) == "images":
        return base
    rows = " ".join(get_task(task).fingerprint(split)[:16] for split in SPLITS)
    return replace(
        base,
        eps=config.text_eps,
        batch=config.text_batch,
        train_items=None,
        model=config.model,
        context=config.context,
        sources=f"{fingerprint(config.model)} {rows}",
    )


def _trained(
    title: str, runs: Sequence[MethodRun], context: Context
) -> Iterator[tuple[MethodRun, dict[str, Any]]]:
    """Train the runs and yield each with its metrics; finished checkpoints are removed."""
    if not runs:
        return
    store = CheckpointStore.of(context.environment, runs[0].threads)
    tidy(store.directory)
    tasks = [TrainingTask(run, store) for run in runs]
    for task, metrics in _in_processes(title, train_run, tasks, context):
        store.checkpoint(task.run).remove()
        yield task.run, metrics


def _in_processes(
    title: str, function: Callable[[Any], dict[str, Any]], tasks: Sequence[Any], context: Context
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each task with its result; one process at a time, as their times are results."""

    def run_of(task: MethodRun | TrainingTask) -> TrainingRun:
        return task.run if isinstance(task, TrainingTask) else task

    def label(task: MethodRun | TrainingTask) -> str:
        return task.run.label() if isinstance(task, TrainingTask) else ARMS[task.arm].label

    return run_in_subprocesses(
        f"zo_methods {title}",
        function,
        tasks,
        lambda task: {"title": title, **run_of(task).key()},
        label=label,
        store=context.result_cache,
        workers=1,
        preload=_PRELOAD,
    )
