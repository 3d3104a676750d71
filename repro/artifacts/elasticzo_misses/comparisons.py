"""The runs with one cause changed beside those of the tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.artifacts.elasticzo_misses.causes import CAUSES, Cause
from repro.artifacts.scores import place, published
from repro.claims.elasticzo import PRECISIONS
from repro.claims.quantity import Key, Point, key
from repro.claims.statistics import Estimate, estimate
from repro.claims.trained import Cell, Cells
from repro.measurement.records import Record

Value = str | float | None


@dataclass(frozen=True)
class Arm:
    """All seeds of one value of a cause."""

    value: Value
    cell: Cell
    of_table: bool
    """Whether it is the table's own value."""

    @property
    def last(self) -> Estimate:
        """Test accuracy after the last epoch, in per cent."""
        return estimate(list(self.cell.last.values()))

    @property
    def best(self) -> Estimate:
        """The same after the best epoch of each seed."""
        return estimate(list(self.cell.best.values()))

    @property
    def label(self) -> str:
        """The value as people read it."""
        if self.value is None:
            return "schedule"
        if isinstance(self.value, str):
            return PRECISIONS.get(self.value, self.value)
        return f"{self.value:g}"


@dataclass(frozen=True)
class Comparison:
    """One cell of a table by several values of one suspected cause."""

    cause: Cause
    row: Point
    """Coordinates of the cell in its table."""
    arms: tuple[Arm, ...]
    """In the order of the values."""
    published: float
    """Per cent."""


def comparisons(records: Sequence[Record]) -> list[Comparison]:
    """Return what the records hold of each cell and cause, in the order of the tables."""
    rows: dict[Key, dict[tuple[str, Value] | None, Cell]] = {}
    for cell in Cells(records):
        rows.setdefault(key(_row(cell)), {})[_change(cell)] = cell
    found = [
        Comparison(cause, dict(row), _arms(cells, cause), published()[row])
        for row, cells in rows.items()
        if None in cells
        for cause in CAUSES
        if any(changed is not None and changed[0] == cause.setting for changed in cells)
    ]
    return sorted(found, key=lambda one: place(one.row))


def _row(cell: Cell) -> Point:
    """Return the coordinates in the table; only a change of sign changes the precision."""
    point = {n: v for n, v in cell.point.items() if n in {"dataset", "angle", "method"}}
    changed = _change(cell)
    of_sign = changed is not None and changed[0] == "precision"
    return {**point, "precision": "int8" if of_sign else cell.point["precision"]}


def _change(cell: Cell) -> tuple[str, Value] | None:
    changed: dict[str, Value] = cell.records[0].metrics["changed"]
    return next(iter(changed.items()), None)


def _arms(cells: dict[tuple[str, Value] | None, Cell], cause: Cause) -> tuple[Arm, ...]:
    arms = [
        Arm(cell.point[cause.setting], cell, changed is None)
        for changed, cell in cells.items()
        if changed is None or changed[0] == cause.setting
    ]
    return tuple(sorted(arms, key=_order))


def _order(arm: Arm) -> tuple[bool, float, bool]:
    """Numbers ascend; what is no number begins with the table's own."""
    is_number = isinstance(arm.value, int | float)
    return is_number, float(arm.value or 0) if is_number else 0.0, not arm.of_table
