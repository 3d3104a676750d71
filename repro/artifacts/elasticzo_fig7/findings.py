"""Our value for every claim on execution time: the engine's, with PyTorch's beside it."""

from collections.abc import Iterable

from repro.artifacts.elasticzo_fig7 import ARTIFACT
from repro.artifacts.elasticzo_fig7.times import Times
from repro.claims.execution_time import QUANTITIES, Point, Quantity, Ratio
from repro.claims.index import CLAIMS
from repro.claims.verdict import Finding
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record


def findings(records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    records = list(records)
    times = Times(records)
    machine = _machine(records[0], times)
    return [_finding(claim_id, times, machine) for claim_id in ARTIFACT.claims]


def _finding(claim_id: str, times: Times, machine: str) -> Finding:
    quantity, unit = QUANTITIES[claim_id], CLAIMS[claim_id].unit
    if not times.has("native", _points(quantity)):
        reason = "the run does not have the engine's steps of all methods at this batch size"
        return Finding(claim_id, None, reason)
    by_method = _values("native", quantity, times)
    method = _picked(quantity, by_method)
    listed = ", ".join(f"{METHOD_LABELS[name]} {v:.3g} {unit}" for name, v in by_method.items())
    reason = f"on-device engine: {listed}; {machine}"
    if times.has("torch", _points(quantity)):
        theirs = _values("torch", quantity, times)
        value = theirs[_picked(quantity, theirs)]
        reason += f"; PyTorch's steps: {value:.3g} {unit}"
    return Finding(claim_id, by_method[method], reason)


def _values(engine: str, quantity: Quantity, times: Times) -> dict[str, float]:
    """Return the quantity of each method that it speaks of."""
    if isinstance(quantity, Ratio):
        return {
            str(first["method"]): times.ratio(engine, first, second)
            for first, second in quantity.pairs
        }
    return {
        str(point["method"]): times.share(engine, point, quantity.phases)
        for point in quantity.points
    }


def _picked(quantity: Quantity, values: dict[str, float]) -> str:
    pick = min if quantity.pick == "smallest" else max
    return pick(values, key=lambda method: values[method])


def _points(quantity: Quantity) -> list[Point]:
    if isinstance(quantity, Ratio):
        return [point for pair in quantity.pairs for point in pair]
    return list(quantity.points)


def _machine(record: Record, times: Times) -> str:
    """Say what the times are of, and that it is not what the paper's are of."""
    threads = record.config["threads"]
    here = f"{record.environment.cpu}, {threads} thread{'s' if threads > 1 else ''}"
    if times.machine:
        here += f", {times.machine['instructions']}, int8 {times.peak_ratio():.1f} x float32's peak"
    return f"another machine than the paper's Raspberry Pi Zero 2 (four ARM cores): {here}"
