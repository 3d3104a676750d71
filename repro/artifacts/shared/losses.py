"""Draw and tabulate the loss curves of a figure's cells."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from repro.artifacts.shared.scores import headings, place
from repro.claims.elasticzo import ROW_LABELS
from repro.claims.trained import SeedGroup, SeedGroups
from repro.measurement.records import Record
from repro.plotting.curves import LossCurve, curves

_KINDS = ("train", "test")


def figure(records: Sequence[Record]) -> Figure:
    """Draw train and test loss of every method, with a column per data set and precision."""
    panels: dict[str, dict[str, dict[str, LossCurve]]] = {}
    for group in _ordered(records):
        column = panels.setdefault(", ".join(headings(group.point)), {k: {} for k in _KINDS})
        for kind in _KINDS:
            seeds = [record.metrics[f"{kind}_loss"] for record in group.evaluated]
            column[kind][_method(group)] = LossCurve(seeds, group.profile, group.caveat)
    return curves(panels)


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return the last losses of every run in nats, including runs that the means leave out."""
    rows = []
    for group in _ordered(records):
        for note, runs in (("", group.records), ("left out: other settings", group.left_out)):
            for record in runs:
                metrics = record.metrics
                accuracies = [100 * accuracy for accuracy in metrics["test_accuracy"]]
                row = {
                    "": ", ".join(headings(group.point)),
                    "method": _method(group),
                    "seed": record.seed,
                    "epochs": len(metrics["seconds"]),
                    "train loss": _rounded(metrics["train_loss"][-1:], 4),
                    "test loss": _rounded(metrics["test_loss"][-1:], 4),
                    "lowest test loss": _rounded(sorted(metrics["test_loss"])[:1], 4),
                    "test accuracy (%)": _rounded(accuracies[-1:], 2),
                    "profile": record.profile,
                    "note": ", ".join(filter(None, ("diverged" * metrics["diverged"], note))),
                }
                rows.append(row)
    return pd.DataFrame(rows)


def _rounded(value: Sequence[float], digits: int) -> float | str:
    """Return the single value rounded; empty if the run diverged before its first evaluation."""
    return round(value[0], digits) if value else ""


def _method(group: SeedGroup) -> str:
    return ROW_LABELS[str(group.point["method"])]


def _ordered(records: Sequence[Record]) -> list[SeedGroup]:
    """Return the groups by data set, then by method in the order of the paper's tables."""
    return sorted(SeedGroups(records), key=lambda group: place(group.point))
