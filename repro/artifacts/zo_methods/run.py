"""Measure the step of each arm, tune its learning rate, and train it.

Kinds of results, each with ``task``, ``arm`` and ``device`` in its point:

- ``step``: the cost of a step in forward passes, by FLOPs, and its peak memory.
- ``grid``: a run at one learning rate, ``lr`` in the point, evaluated at its end on held-out items.
- ``run``: the curve of a run at the best learning rate, by evaluation: ``steps``,
  ``forward_passes``, ``seconds``, ``cpu_seconds``, ``accuracy``, ``loss``. ``at_edge`` says whether
  the rate is an end of its grid, ``settings`` holds all settings but the seed. If every rate
  diverged there is only ``divergence``.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.subprocesses import run_in_subprocesses, train_in_subprocesses
from repro.artifacts.shared.training_runs import recorded_or_made
from repro.artifacts.shared.tuning import best_rate
from repro.artifacts.zo_methods import Config, kind_of
from repro.artifacts.zo_methods.arms import ARMS
from repro.artifacts.zo_methods.training import MethodRun, measure_cost, needs_engine
from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.text.tasks import get_task, tasks_of_seeds
from repro.finetuning.base_models import load_architecture, load_tokenizer, unobtainable
from repro.finetuning.items import load_items, require_items
from repro.finetuning.sources import identifying_settings, recorded_settings, sources_of
from repro.measurement.device import require_device
from repro.ondevice.build import build
from repro.training.store import CheckpointStore
from repro.training.task import VISION_TASKS

_PRELOAD = ["repro.training.trainer", "repro.artifacts.zo_methods.training"]


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result; an interrupted run resumes from its last checkpoint.

    Raises:
        UsageError: N exceeds the model's positions, the rows of a task do not suffice or do not
            fit, or the device does not exist here.
        EngineError: the engine is to draw directions and cannot be built.
        ReproError: data or the model cannot be obtained, a process died, or a step of an arm
            exceeds the memory.
    """
    require_device(config.device)
    _require_obtainable(config)
    # all at once: rows that change later are refused, not compared with earlier ones
    bases = {task: _base_runs(config, task) for task in config.tasks}
    for task in config.tasks:
        yield from _compared(config, task, bases[task], context)


def _require_obtainable(config: Config) -> None:
    """Fetch the data and check them and the model before hours are spent on the first task."""
    for task in config.tasks:
        images = kind_of(task) == "images"
        for name in [VISION_TASKS[task].dataset] if images else get_task(task).sets:
            cache.load(name)
        if images:
            continue
        arms = _arms(config, task)
        if any(needs_engine(arm, task, config.device) for arm in arms):
            build()
        if reason := unobtainable(config.model):
            raise ReproError(reason)
        positions = load_architecture(config.model).positions
        if config.context > positions:
            raise UsageError(
                f"context N = {config.context}: {config.model} has {positions} positions; give at "
                "most that"
            )
        samples = {
            "tuning": config.tuning_items,
            "monitored": config.evaluated_items,
            "final": config.evaluated_items,
        }
        tokenizer = load_tokenizer(config.model)
        # a run that tests a learning rate has seed 0
        for of_seed in tasks_of_seeds(task, (0, *config.seeds)):
            require_items(of_seed, **samples, batch=config.text_batch)
            load_items(of_seed, tokenizer, **samples, context=config.context)


def _compared(
    config: Config, task: str, bases: Sequence[MethodRun], context: Context
) -> Iterator[Result]:
    """Yield the results of one task: the steps of all arms, their grids, their runs."""
    kind = kind_of(task)
    costs: dict[str, dict[str, Any]] = {}
    steps = {base: Result("step", _point(base), identifying_settings(base)) for base in bases}
    for result in recorded_or_made(steps, context, partial(_measured, config, context)):
        costs[result.point["arm"]] = dict(result.metrics)
        yield result
    whole = [
        replace(base, steps=max(1, int(config.forwards(kind) / costs[base.arm]["forwards"])))
        for base in bases
    ]
    grids: dict[str, list[Result]] = {base.arm: [] for base in bases}
    tuned = {
        (one := replace(base, tuning=True, lr=lr)): Result(
            "grid", {**_point(base), "lr": lr}, identifying_settings(one)
        )
        for base in whole
        for lr in ARMS[base.arm].grid(kind, config.rates)
    }
    made = partial(_trained, f"{task}: learning rates", config, context)
    for result in recorded_or_made(tuned, context, made):
        grids[result.point["arm"]].append(result)
        yield result
    lrs = {arm: best_rate(grid) for arm, grid in grids.items()}
    for base in whole:
        if lrs[base.arm] is None:
            reason = f"every learning rate of {len(grids[base.arm])} diverged"
            sys.stderr.write(f"{ARMS[base.arm].label} on {task}: {reason}\n")
            for seed in config.seeds:
                yield Result("run", _point(base), {"divergence": reason}, seed)
    runs = {
        (one := replace(base, lr=lr, seed=seed)): Result(
            "run", _point(base), {"settings": recorded_settings(one)}, seed
        )
        for base in whole
        if (lr := lrs[base.arm]) is not None
        for seed in config.seeds
    }
    made = partial(_trained, f"{task}: training", config, context)
    for result in recorded_or_made(runs, context, made):
        arm, lr = result.point["arm"], result.metrics["settings"]["lr"]
        rates, forwards = ARMS[arm].grid(kind, config.rates), costs[arm]["forwards"]
        found = {
            "forward_passes": [steps * forwards for steps in result.metrics["steps"]],
            "at_edge": len(rates) > 1 and lr in (rates[0], rates[-1]),
        }
        yield replace(result, metrics={**result.metrics, **found})


def _point(run: MethodRun) -> dict[str, Any]:
    return {"task": run.task, "arm": run.arm, "device": run.device}


def _arms(config: Config, task: str) -> list[str]:
    """Return the arms that train on ``task``."""
    return [arm for arm in config.arms if kind_of(task) in ARMS[arm].rates]


def _base_runs(config: Config, task: str) -> list[MethodRun]:
    """Return a run of each arm, whose steps, learning rate and seed are still to be set."""
    arms = _arms(config, task)
    base = MethodRun(
        task=task,
        arm=arms[0],
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
    if kind_of(task) == "text":
        base = replace(
            base,
            eps=config.text_eps,
            batch=config.text_batch,
            train_items=None,
            model=config.model,
            context=config.context,
            device=config.device,
            sources=sources_of(config.model, task),
        )
    return [replace(base, arm=arm) for arm in arms]


def _measured(
    config: Config, context: Context, bases: Sequence[MethodRun]
) -> Iterator[tuple[MethodRun, dict[str, Any]]]:
    """Yield each run with the cost of its step.

    Raises:
        ReproError: a step exceeds the memory of the device.
    """
    measured = run_in_subprocesses(
        f"zo_methods {bases[0].task}: steps",
        measure_cost,
        bases,
        lambda base: {"kind": "step", **base.key()},
        label=lambda base: ARMS[base.arm].label,
        store=context.result_cache,
        workers=config.workers,
        preload=_PRELOAD,
    )
    for base, cost in measured:
        if "out_of_memory" in cost:
            raise ReproError(f"{cost['out_of_memory']}; leave the arm out, or take a smaller batch")
        yield base, cost


def _trained(
    title: str, config: Config, context: Context, runs: Sequence[MethodRun]
) -> Iterator[tuple[MethodRun, dict[str, Any]]]:
    """Yield each run with its metrics.

    Raises:
        ReproError: a run exceeds the memory of the device; finished runs are kept.
    """
    done = train_in_subprocesses(
        f"zo_methods {title}",
        runs,
        CheckpointStore.of(context.environment, config.threads),
        store=context.result_cache,
        preload=_PRELOAD,
        workers=config.workers,
    )
    for one, metrics in done:
        if "out_of_memory" in metrics:
            fewer = "run fewer --workers at a time, " if config.workers > 1 else ""
            raise ReproError(
                f"{one.label()}: {metrics['out_of_memory']}; {fewer}leave the arm out, or take a "
                "smaller batch"
            )
        yield one, metrics
