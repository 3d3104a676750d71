"""Turn training runs into results, and the papers' tables into training runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.images import ImageRuns, RotatedRuns, TrainingRuns
from repro.core.names import Augmentation, EngineChoice, MethodName, Precision
from repro.training.experiments import TrainingBudget, fine_tuning, from_scratch
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.run import NetworkRun, as_recorded
from repro.training.task import vision_task

Task = TypeVar("Task")


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
        if vision_task(dataset).of_clouds and precision != "fp32":
            continue
        yield from_scratch(
            dataset,
            precision,
            method,
            tuned_hyperparameters(dataset, precision, method),
            seed=seed,
            images=images,
            clouds=clouds,
            augmentation=augmentation,
            device=runs.device,
        )


def rotated_run(
    runs: RotatedRuns, dataset: str, angle: int, precision: Precision, method: MethodName, seed: int
) -> NetworkRun:
    """Return the run of Table 2 at the tuned hyperparameters; ``dataset`` is the upright set."""
    task = f"rotated_{dataset}_{angle}"
    return fine_tuning(
        task,
        precision,
        method,
        tuned_hyperparameters(task, precision, method),
        seed=seed,
        epochs=runs.epochs,
        integer_pretraining_epochs=runs.integer_pretraining_epochs,
        pretraining_items=runs.image_items,
        device=runs.device,
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
