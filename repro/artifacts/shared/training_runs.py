"""Turn training runs into results, and the papers' tables into training runs."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.images import ImageRuns, RotatedRuns, TrainingRuns
from repro.core.errors import ReproError, UnknownRunsError
from repro.core.names import Augmentation, EngineChoice, MethodName, Precision
from repro.execution.schedule import RunsFailedError
from repro.measurement.device import Device
from repro.training.hyperparameters import PRE_TRAINING, tuned_hyperparameters
from repro.training.run import IntegerSettings, NetworkRun, Settings, as_recorded
from repro.training.task import vision_task

Task = TypeVar("Task")


@dataclass(frozen=True)
class TrainingBudget:
    """The amount of training in a run."""

    epochs: int
    items: int | None = None
    """Number of items of the training split; by default all."""
    points: int | None = None
    """Number of points of each cloud; by default all."""


def results(
    runs: Iterable[NetworkRun],
    context: Context,
    extra: Iterable[str] = (),
    engine: EngineChoice = "torch",
) -> Iterator[Result]:
    """Yield a result of kind ``run`` for each training run, recorded before or trained now.

    Its point names the data set, precision and method, and those ``extra`` hyperparameters that the
    run has; the prefix ``start_`` marks hyperparameters of the run it starts from. The metrics are
    the curves (see ``repro.training.loop``) and ``settings``: all settings but the seed.

    Raises:
        UsageError: the machines or the engine cannot train a run.
        EngineError: the on-device engine is asked for and not built.
        ReproError: some runs failed; the others were trained and yielded before this is raised.
    """
    named = {
        run: Result("run", point_of(run, extra), {"settings": settings_of(run)}, run.seed)
        for run in (by_engine(run, engine) for run in runs)
    }
    yield from recorded_or_made(named, context, context.executor.run)


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


def each_part(parts: Iterable[Iterable[Result]]) -> Iterator[Result]:
    """Yield the results of every part; failed or missing runs of one do not stop the others.

    Raises:
        RunsFailedError: some runs failed; raised after the last part.
        UnknownRunsError: likewise, in a dry run.
    """
    problems: dict[NetworkRun, str] = {}
    unknown: UnknownRunsError | None = None
    for part in parts:
        try:
            yield from part
        except RunsFailedError as error:
            problems |= error.problems
        except UnknownRunsError as error:
            unknown = unknown or error
        except ReproError:
            if problems:  # else nothing would name them
                sys.stderr.write(f"{RunsFailedError(problems)}\n")
            raise
    if problems:
        raise RunsFailedError(problems)
    if unknown is not None:
        raise unknown


def by_engine(run: NetworkRun, engine: EngineChoice) -> NetworkRun:
    """Return ``run`` assigned to ``engine``.

    The run that it starts from is assigned to the engine if the engine supports it. In float32 that
    run is pre-training by Adam, which the engine does not support; PyTorch trains it.

    Raises:
        UsageError: ``engine`` is ``native``, and the on-device engine cannot train the run.
    """
    if engine == "torch" or (engine == "auto" and run.why_not_native()):
        return run
    start = run.start and by_engine(run.start, "auto")
    return replace(run, engine="native", start=start)


def image_runs(
    runs: ImageRuns, precisions: Sequence[Precision], methods: Sequence[MethodName]
) -> Iterator[NetworkRun]:
    """Yield the runs of LeNet-5 from scratch; see ``scratch_runs``."""
    budget = TrainingBudget(runs.epochs, runs.image_items)
    return scratch_runs(runs, runs.datasets, precisions, methods, images=budget, clouds=budget)


def scratch_runs(
    runs: TrainingRuns,
    datasets: Sequence[str],
    precisions: Sequence[Precision],
    methods: Sequence[MethodName],
    *,
    images: TrainingBudget,
    clouds: TrainingBudget,
    augmentation: Augmentation = "none",
) -> Iterator[NetworkRun]:
    """Yield a run for each data set, precision, method and seed, at the tuned hyperparameters.

    Full BP is left out in INT8*: it estimates no gradient, so the run would equal INT8's. PointNet
    is trained in float32 only.
    """
    for dataset, precision, method, seed in product(datasets, precisions, methods, runs.seeds):
        if (precision, method) == ("int8_star", "full_bp"):
            continue
        of_clouds = vision_task(dataset).of_clouds
        if of_clouds and precision != "fp32":
            continue
        run = scratch_run(
            dataset, precision, method, seed, clouds if of_clouds else images, device=runs.device
        )
        yield replace(run, augmentation=augmentation) if of_clouds else run


def scratch_run(
    task: str,
    precision: Precision,
    method: MethodName,
    seed: int,
    budget: TrainingBudget,
    settings: Settings | None = None,
    *,
    device: Device = "cpu",
) -> NetworkRun:
    """Return a run from random weights, at the tuned hyperparameters unless ``settings`` is given.

    ``task`` is any unrotated set.
    """
    return NetworkRun(
        task,
        precision,
        method,
        settings or tuned_hyperparameters(task, precision, method),
        budget.epochs,
        seed,
        train_items=budget.items,
        points=budget.points,
        device=device,
    )


def rotated_run(
    runs: RotatedRuns,
    dataset: str,
    angle: int,
    precision: Precision,
    method: MethodName,
    seed: int,
    settings: Settings | None = None,
) -> NetworkRun:
    """Return a run of Table 2, at the tuned hyperparameters unless ``settings`` is given.

    It is pre-trained on ``dataset``, the upright set, by one epoch of BP with Adam in float32 and
    by NITI's integer BP in INT8 (ElasticZO paper, section 5.1.2).
    """
    task = f"rotated_{dataset}_{angle}"
    start = NetworkRun(
        task=dataset,
        precision="fp32" if precision == "fp32" else "int8",
        method="full_bp",
        settings=PRE_TRAINING if precision == "fp32" else IntegerSettings(),
        epochs=1 if precision == "fp32" else runs.integer_pretraining_epochs,
        seed=seed,
        train_items=runs.image_items,
        device=runs.device,
    )
    settings = settings or tuned_hyperparameters(task, precision, method)
    return NetworkRun(
        task, precision, method, settings, runs.epochs, seed, device=runs.device, start=start
    )


def point_of(run: NetworkRun, extra: Iterable[str] = ()) -> dict[str, Any]:
    """Return the coordinates of a run's results."""
    task = vision_task(run.task)
    dataset = task.recorded_as or task.pixels_of or task.dataset
    point: dict[str, Any] = {"dataset": dataset}
    if task.angle is not None:
        point["angle"] = task.angle
    point |= {"precision": run.precision, "method": run.method}
    settings = {"points": run.points, "epochs": run.epochs, **as_recorded(run.settings)}
    if run.start is not None:
        settings |= {f"start_{n}": value for n, value in as_recorded(run.start.settings).items()}
    return point | {name: settings[name] for name in extra if name in settings}


def settings_of(run: NetworkRun) -> dict[str, Any]:
    """Return the settings of a run without its seed; unset ones are left out."""
    values = run.as_dict()
    values |= values.pop("settings")
    values["start"] = settings_of(run.start) if run.start else None
    apart = ("seed", "signs")  # neither is a setting of the training
    return {n: value for n, value in values.items() if value is not None and n not in apart}
