"""What the artifacts that train have in common: cells in, results out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any, Protocol

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.images import ImageRuns
from repro.core.names import EngineChoice, MethodName, Precision
from repro.measurement.device import Device
from repro.training.experiments import TrainingBudget, fine_tuning, from_scratch
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.run import NetworkRun
from repro.training.task import vision_task


class TuningRuns(Protocol):
    """How long the runs of Table 2 are, and where they are made."""

    @property
    def epochs(self) -> int:
        """Of fine-tuning."""

    @property
    def integer_pretraining_epochs(self) -> int:
        """Of NITI before it, in integers."""

    @property
    def device(self) -> Device:
        """Where the networks are trained."""


def results(
    cells: Iterable[NetworkRun],
    context: Context,
    extra: Iterable[str] = (),
    engine: EngineChoice = "torch",
) -> Iterator[Result]:
    """Yield a result of kind ``run`` for each cell: recorded before, or trained now.

    Its point names the data set, precision and method, and the ``extra`` hyperparameters, where the
    cell has them (``start_`` before those of the run it starts from); the metrics are the curves
    (see ``repro.training.loop.Curves``) and, as ``settings``, all that the runs of one point have
    in common.

    Raises:
        UsageError: the machines or the engine cannot train a cell.
        EngineError: the on-device engine is asked for and not built.
        ReproError: cells failed; the others have been trained and yielded by then.
    """
    missing = []
    for cell in [by_engine(cell, engine) for cell in cells]:
        found = context.prior_results.metrics(
            "run", point_of(cell, extra), cell.seed, settings_of(cell)
        )
        if found is None:
            missing.append(cell)
        else:
            yield Result("run", point_of(cell, extra), found, cell.seed)
    for cell, metrics in context.executor.run(missing):
        settings = {"settings": settings_of(cell)}
        yield Result("run", point_of(cell, extra), metrics | settings, cell.seed)


def by_engine(cell: NetworkRun, engine: EngineChoice) -> NetworkRun:
    """Return ``cell`` as ``engine`` trains it.

    The cell that it starts from is the engine's where it can train that: in float32 that is
    pre-training by Adam, which PyTorch does.

    Raises:
        UsageError: the on-device engine cannot train it, and was asked for by its name.
    """
    if engine == "torch" or (engine == "auto" and cell.why_not_native()):
        return cell
    start = cell.start and by_engine(cell.start, "auto")
    return replace(cell, engine="native", start=start)


def image_cells(
    runs: ImageRuns, precisions: Sequence[Precision], methods: Sequence[MethodName]
) -> Iterator[NetworkRun]:
    """Yield a cell for each data set, precision, method and seed, at the chosen hyperparameters.

    Full BP estimates no gradient, so there is none in INT8*: it would be INT8.
    """
    length = TrainingBudget(runs.epochs, runs.image_items)
    for dataset, precision, method, seed in product(runs.datasets, precisions, methods, runs.seeds):
        if (precision, method) != ("int8s", "full_bp"):
            yield from_scratch(
                dataset,
                precision,
                method,
                tuned_hyperparameters(dataset, precision, method),
                seed=seed,
                images=length,
                clouds=length,
                device=runs.device,
            )


def tuned_cell(
    runs: TuningRuns, dataset: str, angle: int, precision: Precision, method: MethodName, seed: int
) -> NetworkRun:
    """Return the cell of Table 2 at the chosen hyperparameters; ``dataset`` is not rotated yet."""
    problem = f"rotated_{dataset}_{angle}"
    return fine_tuning(
        problem,
        precision,
        method,
        tuned_hyperparameters(problem, precision, method),
        seed=seed,
        epochs=runs.epochs,
        integer_pretraining_epochs=runs.integer_pretraining_epochs,
        device=runs.device,
    )


def point_of(cell: NetworkRun, extra: Iterable[str] = ()) -> dict[str, Any]:
    """Return the coordinates of a cell's results."""
    problem = vision_task(cell.task)
    dataset = problem.pixels_of or problem.recorded_as or problem.dataset
    point: dict[str, Any] = {"dataset": dataset}
    if problem.angle is not None:
        point["angle"] = problem.angle
    point |= {"precision": cell.precision, "method": cell.method}
    settings = asdict(cell.settings)
    if cell.start is not None:
        settings |= {f"start_{n}": value for n, value in asdict(cell.start.settings).items()}
    return point | {name: settings[name] for name in extra if name in settings}


def settings_of(cell: NetworkRun) -> dict[str, Any]:
    """Return how a cell is trained, whatever its seed; what is not set is left out."""
    values = cell.as_dict()
    values |= values.pop("settings")
    values["start"] = settings_of(cell.start) if cell.start else None
    apart = ("seed", "signs")  # they change nothing in how it is trained
    return {n: value for n, value in values.items() if value is not None and n not in apart}
