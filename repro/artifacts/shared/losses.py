"""Draw and tabulate the loss curves of a figure's cells."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from repro.artifacts.shared.scores import headings, place
from repro.claims.elasticzo import METHODS
from repro.claims.trained import Cell, Cells
from repro.measurement.records import Record
from repro.plotting.curves import LossCurve, curves

_KINDS = ("train", "test")


def figure(records: Sequence[Record]) -> Figure:
    """Draw train and test loss of every method, with a column per data set and precision."""
    panels: dict[str, dict[str, dict[str, LossCurve]]] = {}
    for cell in _ordered(records):
        column = panels.setdefault(", ".join(headings(cell.point)), {k: {} for k in _KINDS})
        for kind in _KINDS:
            seeds = [record.metrics[f"{kind}_loss"] for record in cell.evaluated]
            column[kind][_method(cell)] = LossCurve(seeds, cell.profile, cell.caveat)
    return curves(panels)


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return the last losses of every run in nats, including runs that the means leave out."""
    rows = []
    for cell in _ordered(records):
        for note, runs in (("", cell.records), ("left out: other settings", cell.left_out)):
            for record in runs:
                metrics = record.metrics
                accuracies = [100 * accuracy for accuracy in metrics["test_accuracy"]]
                row = {
                    "": ", ".join(headings(cell.point)),
                    "method": _method(cell),
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


def _method(cell: Cell) -> str:
    return METHODS[str(cell.point["method"])]


def _ordered(records: Sequence[Record]) -> list[Cell]:
    """Return the cells by data set, then by method in the order of the paper's tables."""
    return sorted(Cells(records), key=lambda cell: place(cell.point))
