"""Collect our accuracies and the published ones of a table's cells, for figures and tables."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from repro.claims.elasticzo import CLAIMS, DATASETS, METHODS, PRECISIONS, QUANTITIES
from repro.claims.quantity import Accuracy, Key, Point, key
from repro.claims.trained import Cell, Cells, prediction
from repro.measurement.records import Record
from repro.plotting import accuracy
from repro.plotting.accuracy import Columns, Score
from repro.plotting.style import METHOD_COLOURS

STAND_INS = {
    "shapes40": "generated shapes (stand-in)",
    "shrec11": "SHREC11 (stand-in)",
    "modelnet40_hdf5": "ModelNet40 (HDF5)",
}


def columns(records: Sequence[Record]) -> Columns:
    """Return the scores of every column that has records, in the order of the table."""
    cells, printed = Cells(records), published()
    found: dict[tuple[str, ...], list[Score]] = {}
    for column in _columns(cells):
        points = [{**column, "method": method} for method in METHODS]
        rows = [
            _score(cells.get(point), printed.get(key(point)), str(point["method"]))
            for point in points
            if cells.get(point) or key(point) in printed
        ]
        found[headings(column)] = rows
    return found


def figure(records: Sequence[Record]) -> Figure:
    """Draw each column of the table: ours and published, method by method."""
    return accuracy.dots(columns(records))


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return our accuracy, the published one and their difference, methods by columns."""
    return accuracy.table(columns(records))


def headings(column: Point) -> tuple[str, ...]:
    """Return the headings of a column: data set, rotation if any, precision."""
    dataset = str(column["dataset"])
    rotation = (f"{column['angle']}°",) if "angle" in column else ()
    name = DATASETS.get(dataset) or STAND_INS[dataset]
    return name, *rotation, PRECISIONS[str(column["precision"])]


def runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return how the cells of each column were trained, and which of their seeds count.

    Epochs are the finished ones. Hyperparameters are shown only where they are used. Three columns
    are hidden if they say nothing: the engine if it is always PyTorch, the data set if it is always
    the column's own form, and the augmentation if there is none.
    """
    cells = Cells(records)
    rows = {}
    for column in _columns(cells):
        for method in METHODS:
            point = {**column, "method": method}
            cell = cells.get(point)
            if cell is None or method == "none":
                continue
            name = ", ".join((*headings(column), METHODS[method]))
            rows[name] = _row(cell)
            for other in cells.others(point):
                rows[f"{name} ({other.engine}, {other.dataset})"] = _row(other)
    table = pd.DataFrame(list(rows.values()), index=list(rows))
    usual = {"engine": {"torch"}, "data set": {""}, "augmentation": {""}}
    hidden = [name for name, values in usual.items() if set(table.get(name, ())) <= values]
    return table.drop(columns=hidden, errors="ignore")


_SHOWN = ("train_items", "points", "batch", "lr")
_OF_PERTURBATION = ("clip", "eps", "r_max")


def _row(cell: Cell) -> dict[str, Any]:
    used = {
        name: value
        for name, value in cell.settings.items()
        if name not in _OF_PERTURBATION or cell.point["method"] != "full_bp"
    }
    problem = str(cell.settings.get("problem", ""))
    return {
        "profile": cell.profile,
        "seeds": ", ".join(map(str, cell.seeds)),
        "note": cell.caveat,
        "engine": ", ".join(dict.fromkeys(record.engine for record in cell.records)),
        "data set": "" if problem == cell.point["dataset"] else problem,
        "augmentation": cell.settings.get("augmentation", ""),
        "pre-training epochs": cell.settings.get("start", {}).get("epochs", ""),
        "epochs": cell.epochs,
        **{name: used.get(name, "") for name in (*_SHOWN, *_OF_PERTURBATION)},
    }


def place(point: Point) -> tuple[int, int, int, int]:
    """Return the sort key of a point in the paper's order; points without a method come first."""
    methods = [None, *METHODS]
    return (
        [*DATASETS, *STAND_INS].index(str(point["dataset"])),
        [*PRECISIONS].index(str(point["precision"])),
        int(point.get("angle") or 0),
        methods.index(point.get("method")),  # type: ignore[arg-type]
    )


def _columns(cells: Cells) -> Sequence[Point]:
    """Return the coordinates of the columns, without the method, each once."""
    found: dict[tuple[tuple[str, Any], ...], Point] = {}
    for cell in cells:
        column = {name: value for name, value in cell.point.items() if name != "method"}
        found[tuple(column.items())] = column
    return sorted(found.values(), key=place)


def published() -> Mapping[Key, float]:
    """Return the published accuracy of each point, in per cent."""
    claims = {claim.id: claim.published for claim in CLAIMS}
    return {
        key(quantity.point): claims[claim_id]
        for claim_id, quantity in QUANTITIES.items()
        if isinstance(quantity, Accuracy)
    }


def _score(cell: Cell | None, published: float | None, method: str) -> Score:
    return (
        Score(METHODS[method], published)
        if cell is None
        else score(METHODS[method], published, cell)
    )


def score(name: str, published: float | None, cell: Cell) -> Score:
    """Return the mean accuracies of a cell's seeds, with the interval that decides the verdict."""
    if not cell.evaluated:
        return Score(name, published, profile=cell.profile, caveat=cell.caveat)
    return Score(
        name,
        published,
        fmean(cell.last.values()),
        prediction(list(cell.last.values()), cell.point),
        fmean(cell.best.values()) if cell.is_trained else None,
        cell.profile,
        cell.caveat,
        METHOD_COLOURS[str(cell.point["method"])],
    )
