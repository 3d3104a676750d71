"""How a cell is called in lists."""

from dataclasses import fields
from typing import Any

from repro.training.cell import Cell


def described(cell: Cell) -> str:
    """Return what tells ``cell`` from all others of a sweep: what is not by default."""
    settings: Any = cell.settings
    told = [f"{cell.epochs} epochs"]
    for of in (settings, cell):
        for field in fields(of):
            value = getattr(of, field.name)
            if field.name not in _IN_LABEL and value != field.default:
                told.append(f"{field.name} {value}")
    begun = f", from {described(cell.start)}" if cell.start else ""
    return f"{cell.label()} ({', '.join(told)}{begun})"


_IN_LABEL = {"problem", "precision", "method", "settings", "epochs", "seed", "start"}
