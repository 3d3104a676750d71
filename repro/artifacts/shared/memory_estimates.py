"""Read the memory estimates of training steps from records, for figures, findings and tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.claims.memory import Point
from repro.claims.quantity import key
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
    "bound": EstimateSource("lower bound", "bound", {}),
}
"""The estimates by basis of a claim, and three more; the compact engine is for integers only."""

_AROUND = ("optimizer", "onednn", "threads", "compact")  # coordinates that do not name the step


@dataclass(frozen=True)
class StepMemory:
    """One memory estimate of one step."""

    total: int
    """Total in bytes."""
    parts: Mapping[str, int]
    """Bytes by label, without empty parts."""
    objects: int = 0
    """Maximum bytes of other objects that the process held; measured in PyTorch only."""


class MemoryEstimates:
    """All recorded memory estimates of all steps."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Read the records of one run."""
        records = list(records)
        self._rows = {
            (name, key(_step(record))): _row(record, records)
            for name, source in ESTIMATES.items()
            for record in of_kind(records, source.kind)
            if source.extra.items() <= record.point.items()
        }
        self.steps: list[Point] = [
            _step(record)
            for record in of_kind(records, "formula")
            if record.point["optimizer"] == "sgd"
        ]
        """Every step once, in the order of the records."""

    def get(self, name: str, step: Point) -> StepMemory | None:
        """Return the estimate ``name`` of a step, or ``None`` if it is not recorded."""
        return self._rows.get((name, key(step)))

    def of(self, step: Point) -> Iterator[tuple[str, StepMemory]]:
        """Yield each recorded estimate of a step with its name."""
        for name in ESTIMATES:
            if row := self.get(name, step):
                yield name, row

    def settings(self, precision: str) -> list[tuple[int, list[Point]]]:
        """Return each batch size with its steps, Full BP first as in the paper's figures."""
        by_batch: dict[int, list[Point]] = {}
        for step in self.steps:
            if step["precision"] == precision:
                by_batch.setdefault(int(step["batch"]), []).append(step)
        for steps in by_batch.values():
            steps.sort(key=lambda step: -METHODS.index(step["method"]))
        return list(by_batch.items())


def _step(record: Record) -> Point:
    return {name: value for name, value in record.point.items() if name not in _AROUND}


def _row(record: Record, records: Sequence[Record]) -> StepMemory:
    metrics = record.metrics
    total = metrics["total_bytes"]
    if record.kind not in ("measured", "engine"):
        sizes = {label: metrics[f"{part}_bytes"] for part, label in PARTS.items()}
        return StepMemory(total, {label: size for label, size in sizes.items() if size})
    step = _step(record)
    (parameters,) = {  # no allocator distinguishes the weights
        other.metrics["parameters_bytes"]
        for other in of_kind(records, "formula")
        if _step(other) == step
    }
    parts = {PARTS["parameters"]: parameters, ABOVE: total - parameters}
    return StepMemory(total, parts, metrics.get("objects_bytes", 0))
