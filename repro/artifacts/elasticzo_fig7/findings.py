"""Our value for every claim on execution time: the engine's, and PyTorch's for comparison."""

from collections.abc import Sequence

from repro.artifacts.elasticzo_fig7 import ARTIFACT
from repro.artifacts.elasticzo_fig7.times import Times
from repro.claims.execution_time import QUANTITIES, Ratio, TimeQuantity
from repro.claims.index import CLAIMS
from repro.claims.verdict import Finding
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    times = Times(records)
    threads = records[0].config["threads"]
    machine = (
        "timed on another machine than the paper's Raspberry Pi Zero 2 (four ARM cores): "
        f"{records[0].environment.cpu}, {threads} thread{'s' if threads > 1 else ''}"
    )
    if times.machine:
        peak = f"its int8 peak is {times.peak_ratio():.1f} x its float32 peak"
        machine += f", {times.machine['instructions']}, {peak}"
    return [_finding(claim_id, times, machine) for claim_id in ARTIFACT.claims]


def _finding(claim_id: str, times: Times, machine: str) -> Finding:
    quantity, unit = QUANTITIES[claim_id], CLAIMS[claim_id].unit
    pick = min if quantity.pick == "smallest" else max
    ours, theirs = (_values(engine, quantity, times) for engine in ("native", "torch"))
    if not ours:
        reason = "the run lacks the engine's steps of a method at this batch size"
        return Finding(claim_id, None, reason)
    listed = ", ".join(f"{METHOD_LABELS[name]} {v:.3g} {unit}" for name, v in ours.items())
    reason = f"C++ engine: {listed}; {machine}"
    if theirs:
        reason += f"; PyTorch: {pick(theirs.values()):.3g} {unit}"
    return Finding(claim_id, pick(ours.values()), reason)


def _values(engine: str, quantity: TimeQuantity, times: Times) -> dict[str, float]:
    """Return the quantity for each method that it names; empty if one was not timed."""
    if isinstance(quantity, Ratio):
        return {
            str(first["method"]): times.ratio(engine, first, second)
            for first, second in quantity.pairs
            if all(times.has(engine, pair) for pair in quantity.pairs)
        }
    return {
        str(point["method"]): times.share(engine, point, quantity.phases)
        for point in quantity.points
        if times.has(engine, quantity.points)
    }
