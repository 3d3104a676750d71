"""Plan, tune and fine-tune the runs of Fig. 4.

Kinds of results, each with the ``setting`` of the configuration in its point:

- ``unobtainable``: a model that could not be obtained, with the reason.
- ``plan``: formula, simulation and measurement of a step; ``chosen`` marks the arm's set-up.
- ``zero_shot``: the accuracy of a model on a task before any training (``repro.finetuning``).
- ``grid``: a short run, evaluated on held-out training items; the point has ``arm`` and ``lr``.
- ``run``: the curve of a run, its final values and MeZO's log; ``settings`` holds all settings but
  the seed. If the GPU was too small, ``out_of_memory`` has the reason; if no learning rate finished
  its run, ``divergence`` says so.
"""

import math
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.mezo_fig4.controls import zero_shot_controls
from repro.artifacts.mezo_fig4.plan import plan
from repro.artifacts.shared.subprocesses import train_in_subprocesses
from repro.artifacts.shared.training_runs import recorded_or_made
from repro.artifacts.shared.tuning import best_rate
from repro.core.errors import ReproError
from repro.data.text.tasks import tasks_of_seeds
from repro.finetuning.arms import LABELS, SPECIFICATIONS, tuned_as, uses_engine
from repro.finetuning.items import obtainable, require_items
from repro.finetuning.learner import can_run_passes, restore_of
from repro.finetuning.run import LanguageModelRun
from repro.finetuning.sources import identifying_settings, recorded_settings, sources_of
from repro.finetuning.step_memory import ArmStep
from repro.measurement.device import require_device
from repro.measurement.isolation import run_isolated
from repro.measurement.result_cache import ResultCache
from repro.ondevice.build import build
from repro.training.store import CheckpointStore, identity


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result; an interrupted run resumes from its last checkpoint.

    Every task has the same set-ups. If the GPU is too small for a set-up, or no learning rate suits
    it, the failure is recorded and the other set-ups are run.

    Raises:
        UsageError: the device does not exist here, the rows of a task do not suffice, or the budget
            is too small.
        ReproError: data or models cannot be obtained, a process died, the engine is to draw the
            noise and cannot be built, or no learning rate of any set-up finished its run.
    """
    require_device(config.device)
    if uses_engine(config.noise):
        build()
    datasets = obtainable(config.datasets)
    # before memory is measured for minutes, and for the batch sizes that this leads to
    _require_items(config, datasets, batch=1)
    prepared = _prepared(context)
    planned = plan(config, datasets, prepared)
    _require_items(config, datasets, max(setup.batch for setup in planned.setups))
    models = {setup.model for setup in (*planned.setups, *planned.too_large)}
    tasks = [
        _Task(config, dataset, {model: sources_of(model, dataset) for model in models})
        for dataset in datasets
    ]
    yield from planned.results
    for setup in planned.too_large:  # reported before hours are spent on the others
        others = "" if config.every_model else "; larger settings are left out"
        reason = f"{_name(setup)}: out of memory{others}"
        sys.stderr.write(f"{reason}\n")
        for task in tasks:
            yield from _untrained(task, setup, {"out_of_memory": reason})
    if config.zero_shot:
        sources = {task.dataset: task.sources for task in tasks}
        yield from zero_shot_controls(config, sources, planned.setups, prepared, context)
    for task in tasks:
        yield from _tuned_and_trained(task, planned.setups, context)


def _require_items(config: Config, datasets: Sequence[str], batch: int) -> None:
    # a run that tests a learning rate has seed 0
    for task in chain.from_iterable(tasks_of_seeds(name, (0, *config.seeds)) for name in datasets):
        require_items(
            task,
            tuning=config.tuning_items,
            monitored=config.monitored_items,
            final=config.final_items,
            batch=batch,
        )


def _prepared(context: Context) -> ResultCache:
    """Return the cache of measured steps, zero-shot accuracies and grids.

    It outlives a finished run and does not depend on the configuration: another seed or another
    learning rate repeats none of these hours.
    """
    return ResultCache("mezo_fig4-prepared", {"made by": identity(context.environment)})


class _Task(NamedTuple):
    """A task with the settings of its runs."""

    config: Config
    dataset: str
    sources: Mapping[str, str]
    """What identifies the task's rows and a model's weights (``sources_of``), by model."""


def _tuned_and_trained(
    task: _Task, setups: Sequence[ArmStep], context: Context
) -> Iterator[Result]:
    """Yield the grids and the runs of one task.

    Raises:
        ReproError: no learning rate of any set-up finished its run.
    """
    lrs = yield from _learning_rates(task, setups, context)
    failures = [found for found in lrs.values() if isinstance(found, dict)]
    if len(failures) == len(lrs):
        raise ReproError("; ".join(str(why) for each in failures for why in each.values()))
    for setup in setups:
        lr = lrs[setup]
        if isinstance(lr, dict):
            yield from _untrained(task, setup, lr)
        else:
            yield from _trained(task, setup, lr, context)


_Failure = dict[str, Any]
"""Why a set-up cannot be trained, as the metrics of its runs."""


def _learning_rates(
    task: _Task, setups: Sequence[ArmStep], context: Context
) -> Generator[Result, None, dict[ArmStep, float | _Failure]]:
    """Yield the grids and return each arm's learning rate or failure; a single rate needs no grid.

    BP with checkpointing uses BP's learning rate unless BP ran out of memory: then it may still
    fit, and is tuned itself.
    """
    lrs: dict[ArmStep, float | _Failure] = {}
    # an arm that takes the rate of another one comes after it
    for setup in sorted(setups, key=lambda one: one.arm != tuned_as(one.arm)):
        of_bp = lrs.get(replace(setup, arm=tuned_as(setup.arm)))
        rates = task.config.lrs(setup.arm)
        if len(rates) == 1:
            lrs[setup] = rates[0]
        elif of_bp is None or (isinstance(of_bp, dict) and "out_of_memory" in of_bp):
            results = list(_grid(task, setup, context))
            yield from results
            lr = best_rate(results)
            lrs[setup] = _failure(setup, results) if lr is None else lr
        else:
            lrs[setup] = of_bp
    return lrs


def _trained(task: _Task, setup: ArmStep, lr: float, context: Context) -> Iterator[Result]:
    runs = {
        (run := _run(task, setup, lr, seed)): Result(
            "run", _point(task.config, run), {"settings": recorded_settings(run)}, seed
        )
        for seed in task.config.seeds
    }
    for result in recorded_or_made(
        runs, context, partial(_fine_tuned, "training", context, context.result_cache)
    ):
        sys.stderr.write(f"{_name(setup)}, seed {result.seed}: {_outcome(result.metrics)}\n")
        yield result


def _outcome(metrics: Mapping[str, Any]) -> str:
    """Return in a few words what a run came to."""
    if reason := metrics.get("out_of_memory"):
        return str(reason)
    if metrics.get("divergence"):
        return f"diverged {metrics['divergence']}"
    curve, final = metrics.get("accuracy"), metrics.get("final_accuracy")
    if final is None or not curve:
        return "no evaluation in the time given"
    monitored, at_end = (metrics["items"][which] for which in ("monitored", "final"))
    return (
        f"accuracy {100 * curve[0]:.1f} % before training, {100 * curve[-1]:.1f} % after it "
        f"({monitored} validation items), {100 * final:.1f} % in the final evaluation ({at_end} "
        f"validation items); always the same answer: {100 * metrics['majority']['final']:.1f} %"
    )


def _untrained(task: _Task, setup: ArmStep, failure: _Failure) -> Iterator[Result]:
    for seed in task.config.seeds:
        one = _run(task, setup, 0, seed)
        settings = recorded_settings(one)
        del settings["lr"]
        yield Result("run", _point(task.config, one), failure | {"settings": settings}, seed)


def _grid(task: _Task, setup: ArmStep, context: Context) -> Iterator[Result]:
    """Yield a short run for each learning rate."""
    whole = _run(task, setup, 0, seed=0)
    short = replace(
        whole,
        seconds=whole.seconds * task.config.grid_share,
        steps=math.ceil(whole.steps * task.config.grid_share),
        tuning=True,
    )
    runs = {
        (run := replace(short, lr=lr)): Result(
            "grid",
            _point(task.config, run) | {"lr": lr},
            identifying_settings(run),
            run.seed,
        )
        for lr in task.config.lrs(setup.arm)
    }
    yield from recorded_or_made(
        runs, context, partial(_fine_tuned, "learning rates", context, _prepared(context))
    )


def _name(setup: ArmStep) -> str:
    return f"{LABELS[setup.arm]} on {setup.model} at B = {setup.batch}, N = {setup.context}"


def _failure(setup: ArmStep, results: Sequence[Result]) -> _Failure:
    """Return the reason why a set-up cannot be trained, and print it to standard error."""
    name = _name(setup)
    short = [r.metrics["out_of_memory"] for r in results if "out_of_memory" in r.metrics]
    reason = f"none of the {len(results)} learning rates finished; give lower ones, or more time"
    if short:
        reason = short[0]
    sys.stderr.write(f"{name}: {reason}\n")
    return {"out_of_memory" if short else "divergence": f"{name}: {reason}"}


def _run(task: _Task, setup: ArmStep, lr: float, seed: int) -> LanguageModelRun:
    config = task.config
    is_zo = SPECIFICATIONS[setup.arm].estimates > 0
    noise = config.noise if is_zo else "torch"
    along = is_zo and noise == "torch"  # the engine's own noise has one way to run the passes
    return LanguageModelRun(
        arm=setup.arm,
        model=setup.model,
        dtype=setup.dtype,
        dataset=task.dataset,
        context=setup.context,
        batch=setup.batch,
        lr=lr,
        eps=config.eps,
        seed=seed,
        seconds=config.seconds,
        steps=config.steps(setup.arm, setup.model),
        evaluations=config.evaluations,
        tuning_items=config.tuning_items,
        monitored_items=config.monitored_items,
        final_items=config.final_items,
        device=setup.device,
        threads=setup.threads,
        noise=noise,
        native_passes=along and can_run_passes(restore_of(setup.arm, setup.dtype), setup.device),
        sources=task.sources[setup.model],
    )


def _fine_tuned(
    title: str, context: Context, store: ResultCache, runs: Sequence[LanguageModelRun]
) -> Iterator[tuple[LanguageModelRun, dict[str, Any]]]:
    """Train each run and yield it with its metrics."""
    checkpoints = CheckpointStore.of(context.environment, runs[0].threads)
    trained = train_in_subprocesses(
        f"mezo_fig4 {title}",
        runs,
        checkpoints,
        store=store,
        preload=["repro.finetuning.fine_tune"],
    )
    for run, metrics in trained:
        if context.models and "final_sha256" in metrics:
            _save(run, metrics["final_sha256"], checkpoints, context.models)
        yield run, metrics


def _save(
    run: LanguageModelRun, final_sha256: str, checkpoints: CheckpointStore, models: Path
) -> None:
    """Save the model of a run in a process of its own, which frees the memory that this takes.

    A killed command may have trained the run: then the model is there already, or a message says
    that it is not saved.
    """
    from repro.finetuning.saved import TrainedRun, model_name, save_trained

    directory = models / model_name(run.as_dict(), run.seed, final_sha256)
    if not directory.exists():
        task = TrainedRun(run, checkpoints.checkpoint(run), final_sha256, directory)
        try:
            list(run_isolated(save_trained, [task], workers=1, preload=[save_trained.__module__]))
        except ReproError as error:
            sys.stderr.write(f"{error}\n")
            return
    sys.stderr.write(f"saved {directory}\n")


def _point(config: Config, run: LanguageModelRun) -> dict[str, Any]:
    return {
        "setting": config.setting,
        "dataset": run.dataset,
        "arm": run.arm,
        "model": run.model,
        "batch": run.batch,
        "context": run.context,
    }
