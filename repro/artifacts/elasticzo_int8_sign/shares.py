"""Shares of right signs, from the counts of each epoch."""

from collections.abc import Iterable, Sequence

from repro.measurement.records import Record, of_kind

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


def runs(records: Iterable[Record]) -> dict[tuple[str, str], Sequence[Record]]:
    """Return the runs of each data set and method."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in of_kind(records, "run"):
        found.setdefault((record.point["dataset"], record.point["method"]), []).append(record)
    return dict(found)
