"""Read the memory estimates of training steps from records, for figures, findings and tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.claims.quantity import Point
from repro.core.names import METHODS
from repro.measurement.records import Record, of_kind

PARTS = {
    "parameters": "parameters",
    "gradients": "gradients",
    "activations": "activations",
    "errors": "errors",
    "int32_buffers": "int32 buffers",
    "optimizer_state": "optimizer state",
    "input": "input batch",
    "other": "other tensors",
}
"""Labels of the fields of ``MemoryBreakdown``, from the bottom of a bar up."""
ABOVE = "not told apart"
"""Label of the allocated bytes above the weights, which cannot be split into parts."""
COMPACT = "engine, compact"


@dataclass(frozen=True)
class EstimateSource:
    """The source of one kind of memory estimate."""

    label: str
    kind: str
    """Kind of the records to read."""
    extra: Mapping[str, Any]
    """Coordinates in their points in addition to the step's."""


ESTIMATES = {
    "analytic": EstimateSource("formula", "formula", {"optimizer": "sgd"}),
    "simulated": EstimateSource("simulated", "simulated", {}),
    "measured": EstimateSource("measured", "measured", {"onednn": True}),
    "measured, no oneDNN": EstimateSource("measured, no oneDNN", "measured", {"onednn": False}),
    "engine": EstimateSource("engine", "engine", {"compact": False}),
    COMPACT: EstimateSource("engine, compact", "engine", {"compact": True}),
    "bound": EstimateSource("bound, layer by layer", "bound", {}),
}
"""The estimates by basis of a claim, and three more; the compact engine is for integers only."""

STEP = ("network", "points", "precision", "batch", "method")
"""The coordinates of a step; ``points`` is 0 but for clouds."""
TOTAL = "total"
OBJECTS = "objects besides"
"""Maximum bytes of other objects that the process held; measured in PyTorch only."""

EstimateKey = tuple[Any, ...]
"""The coordinates ``STEP`` and the name of an estimate."""
PartBytes = dict[str, int]
"""Bytes by part, their total, and the objects besides."""


def read(records: Iterable[Record]) -> dict[EstimateKey, PartBytes]:
    """Return all recorded memory estimates, by batch size, with Full BP first as in the paper.

    No allocator tells the weights from other memory; they are taken from the formula.
    """
    records = list(records)
    weights = {
        key(record.point): record.metrics["parameters_bytes"]
        for record in of_kind(records, "formula")
    }
    rows = {}
    for name, source in ESTIMATES.items():
        for record in of_kind(records, source.kind):
            if source.extra.items() <= record.point.items():
                sizes = {"parameters_bytes": weights.get(key(record.point)), **record.metrics}
                parts = {label: sizes.get(f"{part}_bytes", 0) for part, label in PARTS.items()}
                parts[ABOVE] = sizes["total_bytes"] - sum(parts.values())
                others = {TOTAL: sizes["total_bytes"], OBJECTS: sizes.get("objects_bytes", 0)}
                rows[key(record.point, name)] = parts | others
    return {at: rows[at] for at in sorted(rows, key=_place)}


def _place(at: EstimateKey) -> tuple[int, int]:
    *_, batch, method, _ = at
    return batch, -METHODS.index(method)


def key(step: Point, *name: str) -> EstimateKey:
    """Return the key of a step's estimate ``name``."""
    return (*(step.get(coordinate, 0) for coordinate in STEP), *name)
