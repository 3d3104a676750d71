"""The tables of the notebook, as data frames made from records."""

from collections.abc import Sequence

import pandas as pd

from repro.core.units import format_bytes
from repro.measurement.records import Record, of_kind

_WHERE = ("context", "layers", "hidden", "attention", "dtype")
_COORDINATES = ("context", "layers", "hidden", "method", "attention", "dtype")
_SYMBOLS = {"context": "N", "layers": "L", "hidden": "D"}


def parameters(records: Sequence[Record]) -> pd.DataFrame:
    """Return the real model's parameters by part, and the formula's count beside their sum."""
    (record,) = of_kind(records, "parameters")
    table: dict[str, int] = record.metrics["table"]
    total = sum(table.values())
    counts = {**table, "all": total, "formula 12 L D² + 2 V D": int(record.metrics["formula"])}
    rows = [(part, f"{count:,}", f"{count / total:.2%}") for part, count in counts.items()]
    return pd.DataFrame(rows, columns=["part", "parameters", "share"]).set_index("part")


def points(records: Sequence[Record], kind: str) -> pd.DataFrame:
    """Return every simulated or measured peak beside the formula, with the effective L'."""
    rows = []
    for record in of_kind(records, kind):
        point, metrics = record.point, record.metrics
        row = {_SYMBOLS.get(name, name): point[name] for name in _COORDINATES}
        if "peak_bytes" in metrics:
            row |= {
                "observed": format_bytes(metrics["peak_bytes"]),
                "formula": format_bytes(metrics["formula_bytes"]),
                "formula's error": f"{metrics['formula_bytes'] / metrics['peak_bytes'] - 1:+.1%}",
                "effective L'": round(metrics["effective_layers"], 2),
            }
        else:
            row |= {"observed": "out of memory"}
        rows.append(row)
    return pd.DataFrame(rows)


def breakdown(records: Sequence[Record]) -> pd.DataFrame:
    """Return what is alive at the simulated peak around the paper's setting."""
    config = records[0].config
    rows = [
        {
            "method": record.point["method"],
            "attention": record.point["attention"],
            **{
                part: format_bytes(record.metrics[f"{part}_bytes"])
                for part in ("parameters", "gradients", "activations", "temporaries", "peak")
            },
        }
        for record in of_kind(records, "simulated")
        if all(record.point[name] == config[name] for name in ("context", "layers", "hidden"))
    ]
    return pd.DataFrame(rows)


def extra_over_forward(records: Sequence[Record]) -> pd.DataFrame:
    """Return how much more a measured MeZO step takes than a forward pass, transients alone."""
    rows = [
        (*where, forward, mezo, f"{mezo / forward - 1:.2%}")
        for where, forward, mezo in _transients(records)
    ]
    symbols = [_SYMBOLS.get(name, name) for name in _WHERE]
    return pd.DataFrame(rows, columns=[*symbols, "forward (B)", "MeZO (B)", "extra"])


def largest_extra(records: Sequence[Record]) -> str:
    """Return the largest of them as a share of the forward pass."""
    extra = max(mezo / forward - 1 for _, forward, mezo in _transients(records))
    return f"{extra:.2%} of the forward pass's transient memory"


def _transients(records: Sequence[Record]) -> list[tuple[tuple[object, ...], int, int]]:
    """Return forward's and MeZO's measured bytes above the weights for every shape."""
    steps: dict[tuple[object, ...], dict[str, int]] = {}
    for record in of_kind(records, "measured"):
        if "step_bytes" in record.metrics:
            where = tuple(record.point[name] for name in _WHERE)
            steps.setdefault(where, {})[record.point["method"]] = record.metrics["step_bytes"]
    return [
        (where, by["forward"], by["mezo"])
        for where, by in steps.items()
        if {"forward", "mezo"} <= by.keys()
    ]
