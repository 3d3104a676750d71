"""Plan, tune and fine-tune what Fig. 4 needs.

Kinds of results, each with the ``setting`` of the configuration in its point:

- ``unobtainable``: a model that could not be had, and why.
- ``plan``: formula, simulation and measurement of a step; ``chosen`` is what the arm trains.
- ``grid``: a short run, evaluated on held-out training questions; point with ``arm``, ``lr``.
- ``run``: a run (``repro.finetuning.curve``), its end, and the log of MeZO; ``settings`` are all
  that its seeds have in common. Where the GPU was too small ``out_of_memory`` has the reason.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.isolated_points import isolated_points
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.mezo_fig4.plan import plan
from repro.core.errors import ReproError
from repro.core.paths import cache_dir
from repro.finetuning.arms import LABELS, estimates, tuned_as
from repro.finetuning.fine_tune import Task, fine_tune
from repro.finetuning.items import first_obtainable
from repro.finetuning.run import Run
from repro.finetuning.step_memory import Setup
from repro.measurement.device import require_device
from repro.measurement.environment import Environment, source_sha256
from repro.measurement.point_store import PointStore
from repro.ondevice.build import build
from repro.training.tidy import tidy

_PACKAGES = ("core", "data", "models", "methods", "finetuning", "ondevice")
"""The code that decides what a run does."""


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result; what is done is kept if the run is killed, down to the last steps.

    Raises:
        UsageError: the device does not exist here, or the budget is too small.
        ReproError: data or models cannot be had, a process died, or the engine is to draw the
            noise and cannot be built.
    """
    require_device(config.device)
    if config.noise == "engine":
        build()
    dataset = first_obtainable(config.datasets)
    planned = plan(config, dataset, context)
    yield from planned.results
    best: dict[tuple[str, str], float] = {}
    tuned = dict.fromkeys(replace(setup, arm=tuned_as(setup.arm)) for setup in planned.setups)
    for setup in tuned:
        results = list(_grid(config, dataset, setup, context))
        yield from results
        best[setup.arm, setup.model] = _best(setup, results)
    for setup in planned.setups:
        lr = best[tuned_as(setup.arm), setup.model]
        runs = [_run(config, dataset, setup, lr, seed) for seed in config.seeds]
        for one, metrics in _fine_tuned("training", runs, context.journal, context.environment):
            settings = one.as_dict()
            del settings["seed"]
            point = _point(config, one)
            yield Result("run", point, metrics | {"settings": settings}, one.seed)


def _grid(config: Config, dataset: str, setup: Setup, context: Context) -> Iterator[Result]:
    """Yield a short run for each learning rate; those done before under the same code are kept."""
    runs = [
        replace(_run(config, dataset, setup, lr, seed=0), seconds=config.grid_seconds, tuning=True)
        for lr in config.lrs(setup.arm)
    ]
    store = PointStore("mezo_fig4-grid", _identity(context.environment))
    for one, metrics in _fine_tuned("learning rates", runs, store, context.environment):
        yield Result("grid", _point(config, one) | {"lr": one.lr}, metrics, one.seed)


def _best(setup: Setup, results: Sequence[Result]) -> float:
    """Return the learning rate with the lowest loss on the held-out questions.

    Raises:
        ReproError: no run of the grid came to its end.
    """
    ended = [result for result in results if result.metrics.get("loss")]
    if not ended:
        msg = (
            f"{LABELS[setup.arm]} on {setup.model}: of {len(results)} learning rates none came to "
            "the end of its run; give lower ones, or a longer grid_seconds"
        )
        raise ReproError(msg)
    best = min(ended, key=lambda result: float(result.metrics["loss"][-1]))
    return float(best.point["lr"])


def _run(config: Config, dataset: str, setup: Setup, lr: float, seed: int) -> Run:
    return Run(
        arm=setup.arm,
        model=setup.model,
        dtype=setup.dtype,
        dataset=dataset,
        context=setup.context,
        batch=setup.batch,
        lr=lr,
        eps=config.eps,
        seed=seed,
        seconds=config.seconds,
        evaluations=config.evaluations,
        tuning_items=config.tuning_items,
        monitored_items=config.monitored_items,
        final_items=config.final_items,
        device=setup.device,
        threads=setup.threads,
        noise=config.noise if estimates(setup.arm) else "torch",
    )


def _fine_tuned(
    title: str, runs: Sequence[Run], store: PointStore, environment: Environment
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield each run with its metrics; one at a time, for their time is the result."""
    directory = cache_dir() / "fine_tuning" / _digest(_identity(environment))
    tidy(directory)
    tasks = [Task(run, directory) for run in runs]
    for task, metrics in isolated_points(
        f"mezo_fig4 {title}",
        fine_tune,
        tasks,
        lambda task: task.run.as_dict(),
        label=lambda task: task.run.label(),
        store=store,
        workers=1,
        preload=["repro.finetuning.fine_tune"],
    ):
        task.checkpoint.remove()
        yield task.run, metrics


def _point(config: Config, run: Run) -> dict[str, Any]:
    return {
        "setting": config.setting,
        "dataset": run.dataset,
        "arm": run.arm,
        "model": run.model,
    }


def _identity(environment: Environment) -> dict[str, Any]:
    return {
        "source": source_sha256(*_PACKAGES),
        "versions": environment.versions,
        "cpu": environment.cpu,
        "cpu_capability": environment.cpu_capability,
        "gpu": environment.gpu,
    }


def _digest(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
