"""What the artifacts that train have in common: cells in, results out."""

from collections.abc import Iterable, Iterator
from typing import Any

from repro.artifacts.base import Context, Result
from repro.data import cache, catalog
from repro.measurement.device import require_device
from repro.training.cell import Cell
from repro.training.problem import find
from repro.training.run_cells import run_cells

MODELNET40 = ("modelnet40", "modelnet40_hdf5")
CLOUDS = "clouds"
"""ModelNet40 where it is in the cache; else the generated stand-in, under its own name."""


def results(cells: Iterable[Cell], context: Context, extra: Iterable[str] = ()) -> Iterator[Result]:
    """Train all cells and yield a result of kind ``run`` for each.

    Its point names the data set, precision and method, and the ``extra`` hyperparameters; the
    metrics are the curves (see ``repro.training.loop.Curves``) and, as ``settings``, all that the
    runs of one point have in common.

    Raises:
        UsageError: the device of a cell does not exist here.
        ReproError: a process died or failed; what was done is kept.
    """
    chosen = list(cells)
    for device in {cell.device for cell in chosen}:
        require_device(device)
    for cell, curves in run_cells(chosen, context.environment, workers=context.workers):
        yield Result(
            "run", point_of(cell, extra), curves | {"settings": settings_of(cell)}, cell.seed
        )


def resolve(dataset: str) -> str:
    """Return the data set that ``CLOUDS`` stands for here; any other name stands for itself."""
    if dataset != CLOUDS:
        return dataset
    present = [n for n in MODELNET40 if cache.is_cached(catalog.load_set(n))]
    return present[0] if present else "shapes40"


def point_of(cell: Cell, extra: Iterable[str] = ()) -> dict[str, Any]:
    """Return the coordinates of a cell's results."""
    problem = find(cell.problem)
    point: dict[str, Any] = {"dataset": problem.pixels_of or problem.dataset}
    if problem.angle is not None:
        point["angle"] = problem.angle
    point |= {"precision": cell.precision, "method": cell.method}
    return point | {name: getattr(cell.settings, name) for name in extra}


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return how a cell is trained, whatever its seed; what is not set is left out."""
    values = cell.as_dict()
    values |= values.pop("settings")
    values["start"] = settings_of(cell.start) if cell.start else None
    apart = ("seed", "signs")  # they change nothing in how it is trained
    return {n: value for n, value in values.items() if value is not None and n not in apart}
