"""Loss curves of the cells of a figure, as it draws and lists them."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from repro.artifacts.scores import headings
from repro.claims.elasticzo import METHODS
from repro.drawing.curves import Losses, curves
from repro.measurement.records import Record, of_kind

_KINDS = ("train", "test")


def figure(records: Sequence[Record]) -> Figure:
    """Draw train and test loss of every method, a column for each data set and precision."""
    panels: dict[str, dict[str, Losses]] = {}
    for record in _ordered(records):
        column = panels.setdefault(", ".join(headings(record.point)), {k: {} for k in _KINDS})
        for kind in _KINDS:
            seeds = dict(column[kind])
            method = METHODS[record.point["method"]]
            seeds[method] = [*seeds.get(method, ()), record.metrics[f"{kind}_loss"]]
            column[kind] = seeds
    profiles = {record.profile for record in records}
    return curves(panels, profile=", ".join(sorted(profiles)))


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return the last losses of every run, in nats."""
    rows = [
        {
            "": ", ".join(headings(record.point)),
            "method": METHODS[record.point["method"]],
            "seed": record.seed,
            "epochs": len(record.metrics["seconds"]),
            "train loss": round(record.metrics["train_loss"][-1], 4),
            "test loss": round(record.metrics["test_loss"][-1], 4),
            "lowest test loss": round(min(record.metrics["test_loss"]), 4),
            "test accuracy (%)": round(100 * record.metrics["test_accuracy"][-1], 2),
            "profile": record.profile,
        }
        for record in _ordered(records)
    ]
    return pd.DataFrame(rows)


def _ordered(records: Sequence[Record]) -> list[Record]:
    """Return the runs by data set, then by method in the order of the paper's tables, then seed."""
    methods = list(METHODS)
    return sorted(
        of_kind(records, "run"),
        key=lambda r: (headings(r.point), methods.index(r.point["method"]), r.seed or 0),
    )
