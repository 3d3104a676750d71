"""Pair the simulated or measured records of BP and MeZO, for figures and findings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.claims.verdict import Finding
from repro.measurement.records import Record

SIZES = {"context": "context length N", "layers": "layers L", "hidden": "hidden dimension D"}
"""The sizes of a decoder that vary, one at a time, and their labels in figures."""
SYMBOLS = {"context": "N", "layers": "L", "hidden": "D"}
_WHERE = (*SIZES, "attention", "dtype")


@dataclass(frozen=True)
class Saving:
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
        """Backpropagation's peak memory over MeZO's."""
        ratio: float = self.bp["peak_bytes"] / self.mezo["peak_bytes"]
        return ratio

    @property
    def size_ratio(self) -> float:
        """Parameters that MeZO can train in BP's memory, over this model's parameters.

        The model grows in depth. MeZO holds the activations of one layer at a time, so all memory
        above its step's peak is available for the parameters of more layers.
        """
        room = self.bp["peak_bytes"] - self.mezo["peak_bytes"]
        ratio: float = 1 + room / self.mezo["parameters_bytes"]
        return ratio


def by_kernel(claim_id: str, values: Mapping[str, float], reason: str) -> Finding:
    """Return the value with eager attention, as the paper's equations count the N x N scores.

    The value with SDPA, which keeps no scores, is given beside it, or alone.

    Args:
        claim_id: the claim.
        values: our values by attention kernel.
        reason: how the value with eager attention was found.
    """
    others = {"SDPA": values["sdpa"]} if "sdpa" in values else {}
    return Finding(claim_id, values.get("eager"), reason, others=others)


def ratios(records: Iterable[Record]) -> list[Saving]:
    """Pair the records of each shape, with one point for each kind of backpropagation."""
    return [
        Saving(**where, method=method, bp=by_method[method].metrics, mezo=by_method["mezo"].metrics)
        for where, by_method in by_shape(records)
        for method in ("bp", "bp_checkpoint")
        if method in by_method and "mezo" in by_method
    ]


def by_shape(records: Iterable[Record]) -> list[tuple[dict[str, Any], dict[str, Record]]]:
    """Return each shape, kernel and number format with its records by method; all have a peak.

    All records of one shape come from one device, from the CPU if it was measured.
    """
    found: dict[tuple[Any, ...], dict[str, dict[str, Record]]] = {}
    for record in records:
        if "peak_bytes" in record.metrics:
            where = tuple(record.point[name] for name in _WHERE)
            devices = found.setdefault(where, {})
            devices.setdefault(device_of(record), {})[record.point["method"]] = record
    return [
        (dict(zip(_WHERE, where, strict=True)), devices.get("cpu") or next(iter(devices.values())))
        for where, devices in found.items()
    ]


def device_of(record: Record) -> str:
    """Return the device on which a step was measured; simulated steps count as the CPU's."""
    return str(record.point.get("device") or "cpu")
