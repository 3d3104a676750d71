"""Cells of the tables with one suspected cause changed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from repro.artifacts.elasticzo_misses.causes import Cause
from repro.core.names import MethodName
from repro.training.cell import Cell

Changes = Mapping[str, Any]
"""Settings, or the cell's precision, or ``start_`` settings of the run it starts from."""
_WITHOUT_A_TAIL: MethodName = "full_zo"
_OF_THE_TAIL = "activations"


def arms(cell: Cell, causes: tuple[Cause, ...]) -> Iterator[tuple[Cell, Changes]]:
    """Yield ``cell`` as in the tables, and with each other value of each cause alone."""
    yield cell, {}
    for cause in causes:
        if cause.setting == _OF_THE_TAIL and cell.method == _WITHOUT_A_TAIL:
            continue
        for value in cause.values:
            changes = {cause.setting: value}
            if (other := change(cell, changes)) != cell:
                yield other, changes


def change(cell: Cell, changes: Changes) -> Cell:
    """Return ``cell`` with other settings of its own or of the run it starts from."""
    own = dict(changes)
    precision = own.pop("precision", cell.precision)
    before = {name: own.pop(name) for name in changes if name.startswith("start_")}
    start = cell.start
    if start is not None and before:
        settings = {name.removeprefix("start_"): value for name, value in before.items()}
        start = replace(start, settings=replace(start.settings, **settings))
    return replace(cell, precision=precision, settings=replace(cell.settings, **own), start=start)
