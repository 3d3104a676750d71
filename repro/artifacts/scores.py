"""The accuracies of a table's cells, ours beside the published, as figures and tables take them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from repro.claims.elasticzo import CLAIMS, DATASETS, METHODS, PRECISIONS, QUANTITIES
from repro.claims.quantity import Accuracy, Key, Point, key
from repro.claims.statistics import estimate
from repro.claims.trained import Cell, Cells
from repro.drawing import accuracy
from repro.drawing.accuracy import Columns, Score
from repro.measurement.records import Record, of_kind

STAND_INS = {
    "shapes40": "generated shapes (stand-in)",
    "shrec11": "SHREC11 (stand-in)",
    "modelnet10_voxel": "ModelNet10 voxels (stand-in)",
    "modelnet40_hdf5": "ModelNet40 (HDF5)",
}


def columns(records: Sequence[Record]) -> Columns:
    """Return the scores of every column that any record belongs to, in the order of the table."""
    cells, published = Cells(records), _published()
    found: dict[tuple[str, ...], list[Score]] = {}
    for column in _columns(records):
        points = [{**column, "method": method} for method in METHODS]
        rows = [
            _score(cells.get(point), published.get(key(point)), str(point["method"]))
            for point in points
            if cells.get(point) or key(point) in published
        ]
        found[headings(column)] = rows
    return found


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return methods by columns: ours, published, difference, in per cent."""
    return accuracy.table(columns(records))


def headings(column: Point) -> tuple[str, ...]:
    """Return a column as people read it: data set, rotation if any, precision."""
    dataset = str(column["dataset"])
    rotation = (f"{column['angle']}°",) if "angle" in column else ()
    name = DATASETS.get(dataset) or STAND_INS[dataset]
    return name, *rotation, PRECISIONS[str(column["precision"])]


def runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return what the runs of each column were: profile, epochs, items, seeds, hyperparameters."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for record in of_kind(records, "run"):
        settings = record.metrics["settings"]
        if record.point["method"] == "none":
            continue
        key = (*headings(record.point), METHODS[record.point["method"]])
        row = rows.setdefault(key, {"profile": record.profile, "seeds": []})
        row["seeds"].append(record.seed)
        row |= {name: settings.get(name, "") for name in _SHOWN}
    frame = pd.DataFrame(rows.values(), index=[", ".join(key) for key in rows]).fillna("")
    frame["seeds"] = [", ".join(map(str, seeds)) for seeds in frame["seeds"]]
    return frame


_SHOWN = ("epochs", "train_items", "points", "batch", "lr", "clip", "eps", "r_max")


def _columns(records: Sequence[Record]) -> Iterable[Point]:
    """Return the coordinates of the columns, without the method, each once."""
    found: dict[tuple[tuple[str, Any], ...], Point] = {}
    for record in of_kind(records, "run"):
        column = {name: value for name, value in record.point.items() if name != "method"}
        found[tuple(column.items())] = column
    order = [*DATASETS, *STAND_INS]
    return sorted(
        found.values(),
        key=lambda c: (
            order.index(str(c["dataset"])),
            [*PRECISIONS].index(str(c["precision"])),
            c.get("angle", 0),
        ),
    )


def _published() -> Mapping[Key, float]:
    claims = {claim.id: claim.published for claim in CLAIMS}
    return {
        key(quantity.point): claims[claim_id]
        for claim_id, quantity in QUANTITIES.items()
        if isinstance(quantity, Accuracy)
    }


def _score(cell: Cell | None, published: float | None, method: str) -> Score:
    name = METHODS[method]
    if cell is None:
        return Score(name, published)
    last = estimate(list(cell.last.values()))
    best = estimate(list(cell.best.values())).mean if cell.epochs else None
    return Score(name, published, last.mean, last.interval, best, cell.profile)
