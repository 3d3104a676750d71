"""Shares of right signs, from the counts of each epoch."""

from collections.abc import Iterable

from repro.artifacts.scores import place
from repro.claims.trained import Cell, Cells
from repro.measurement.records import Record

RULES = {
    "integer_is_float": "integer = float",
    "exact_is_float": "without the floor = float",
    "integer_is_exact": "integer = without the floor",
    "integer_is_zero": "integer = 0",
}
"""What is counted, and how it is drawn."""


def share(record: Record, rule: str) -> float:
    """Return the share of all steps of a run, in per cent."""
    counts = record.metrics["signs"]
    agreed: int = sum(epoch[rule] for epoch in counts)
    steps: int = sum(epoch["steps"] for epoch in counts)
    return 100 * agreed / steps


def by_epoch(record: Record, rule: str) -> list[float]:
    """Return the share of the steps of each epoch, in per cent."""
    return [100 * epoch[rule] / epoch["steps"] for epoch in record.metrics["signs"]]


def cells(records: Iterable[Record]) -> dict[tuple[str, str], Cell]:
    """Return the cell of each data set and method."""
    ordered = sorted(Cells(records), key=lambda cell: place(cell.point))
    return {(str(cell.point["dataset"]), str(cell.point["method"])): cell for cell in ordered}
