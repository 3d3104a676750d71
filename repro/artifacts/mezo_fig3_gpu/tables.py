"""Make the notebook's tables: ratios of BP to MeZO, errors of the simulation, Fig. 4's set-ups."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from repro.core.units import GB
from repro.measurement.records import Record, of_kind

_SHAPE = ("context", "layers", "hidden", "attention")
_LABELS = {"bp": "BP / MeZO", "bp_checkpoint": "BP, checkpointed / MeZO"}


def ratios(records: Sequence[Record]) -> pd.DataFrame:
    """Return BP's peak over MeZO's for each shape, by equation, simulation and measurement."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in records:
        if record.kind in ("measured", "simulated"):
            shape = tuple(record.point[name] for name in _SHAPE)
            method, metrics = record.point["method"], record.metrics
            peaks = found.setdefault(shape, {})
            peaks[f"{method} equation"] = metrics["equation_bytes"]
            if "peak_bytes" in metrics:
                peaks[f"{method} {record.kind}"] = metrics["peak_bytes"]
    rows = []
    for shape, peaks in sorted(found.items()):
        row: dict[str, Any] = dict(zip(("N", "L", "D", "attention"), shape, strict=True))
        for method, label in _LABELS.items():
            for basis in ("equation", "simulated", "measured"):
                bp, mezo = peaks.get(f"{method} {basis}"), peaks.get(f"mezo {basis}")
                row[f"{label}, {basis}"] = f"{bp / mezo:.2f}" if bp and mezo else "no record"
        rows.append(row)
    return pd.DataFrame(rows)


def agreement(records: Sequence[Record]) -> pd.DataFrame:
    """Return how far measured and simulated peaks differ, by attention and method."""

    def name(record: Record) -> tuple[Any, ...]:
        return tuple(record.point[field] for field in (*_SHAPE, "method", "dtype"))

    simulated = {
        name(record): record.metrics["peak_bytes"] for record in of_kind(records, "simulated")
    }
    ratios: dict[tuple[str, str], list[float]] = {}
    for record in of_kind(records, "measured"):
        if "peak_bytes" in record.metrics and name(record) in simulated:
            ratio = record.metrics["peak_bytes"] / simulated[name(record)]
            ratios.setdefault((record.point["attention"], record.point["method"]), []).append(ratio)
    return pd.DataFrame(
        [
            {
                "attention": attention,
                "method": method,
                "steps": len(found),
                "measured / simulated, smallest": f"{min(found):.3f}",
                "largest": f"{max(found):.3f}",
            }
            for (attention, method), found in sorted(ratios.items())
        ]
    )


def fig4(records: Sequence[Record]) -> pd.DataFrame:
    """Return equation and measurement of each set-up of Fig. 4; empty without such records."""
    return pd.DataFrame(
        [
            {
                "model": record.point["model"],
                "method": record.point["method"],
                "attention": record.point["attention"],
                "published (GB)": 17,
                "equation (GB)": round(record.metrics["equation_bytes"] / GB, 1),
                "measured (GB)": (
                    round(record.metrics["peak_bytes"] / GB, 1)
                    if "peak_bytes" in record.metrics
                    else "out of memory"
                ),
            }
            for record in of_kind(records, "fig4_model")
        ]
    )
