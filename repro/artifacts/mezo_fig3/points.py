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
    bp_bytes: int
    mezo_bytes: int
    live_layers: float
    """Effective L' of the MeZO step."""

    @property
    def ratio(self) -> float:
        """How many times MeZO's memory backpropagation takes."""
        return self.bp_bytes / self.mezo_bytes

    def label(self) -> str:
        """Say which point this is."""
        return (
            f"N = {self.context}, L = {self.layers}, D = {self.hidden}, {self.attention}, "
            f"{self.dtype}, {'checkpointed BP' if self.method == 'bp_checkpoint' else 'BP'}"
        )


def ratios(records: Iterable[Record]) -> list[Point]:
    """Pair the records of each shape: one point for each kind of backpropagation."""
    found: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for record in records:
        if "peak_bytes" in record.metrics:  # absent where a GPU ran out of memory
            where = tuple(record.point[name] for name in _WHERE)
            found.setdefault(where, {})[record.point["method"]] = record.metrics
    return [
        Point(
            **dict(zip(_WHERE, where, strict=True)),
            method=method,
            bp_bytes=by_method[method]["peak_bytes"],
            mezo_bytes=by_method["mezo"]["peak_bytes"],
            live_layers=by_method["mezo"]["effective_layers"],
        )
        for where, by_method in found.items()
        for method in ("bp", "bp_checkpoint")
        if method in by_method and "mezo" in by_method
    ]
