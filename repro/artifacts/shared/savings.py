"""Simulated and measured points as figures and findings read them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from repro.measurement.records import Record

_WHERE = ("context", "layers", "hidden", "attention", "dtype")


@dataclass(frozen=True)
class Point:
    """Backpropagation against MeZO at one shape, kernel and number format."""

    context: int
    layers: int
    hidden: int
    attention: str
    dtype: str
    method: str
    """``bp`` or ``bp_checkpoint``."""
    bp: dict[str, Any]
    """Metrics of backpropagation."""
    mezo: dict[str, Any]
    """Metrics of MeZO."""

    @property
    def ratio(self) -> float:
        """How many times MeZO's memory backpropagation takes."""
        ratio: float = self.bp["peak_bytes"] / self.mezo["peak_bytes"]
        return ratio

    @property
    def size_ratio(self) -> float:
        """How many times this model's parameters MeZO trains in the memory that BP takes.

        The model grows in depth. MeZO holds the activations of one layer at a time, so that all
        memory beyond its step is room for the parameters of more layers.
        """
        room = self.bp["peak_bytes"] - self.mezo["peak_bytes"]
        ratio: float = 1 + room / self.mezo["parameters_bytes"]
        return ratio


def ratios(records: Iterable[Record]) -> list[Point]:
    """Pair the records of each shape: one point for each kind of backpropagation."""
    return [
        Point(**where, method=method, bp=by_method[method].metrics, mezo=by_method["mezo"].metrics)
        for where, by_method in by_shape(records)
        for method in ("bp", "bp_checkpoint")
        if method in by_method and "mezo" in by_method
    ]


def by_shape(records: Iterable[Record]) -> list[tuple[dict[str, Any], dict[str, Record]]]:
    """Return each shape, kernel and format with its records by method, if they have a peak."""
    found: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        if "peak_bytes" in record.metrics:
            where = tuple(record.point[name] for name in _WHERE)
            found.setdefault(where, {})[record.point["method"]] = record
    return [(dict(zip(_WHERE, where, strict=True)), methods) for where, methods in found.items()]
