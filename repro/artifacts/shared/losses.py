"""Draw and tabulate how accuracy and loss change over the epochs."""

from collections.abc import Sequence
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from repro.artifacts.shared.columns import headings, place, published
from repro.claims.elasticzo import CLOUD_EPOCHS, ROW_LABELS
from repro.claims.quantity import key
from repro.claims.trained import SeedGroup, SeedGroups
from repro.measurement.records import Record, of_kind
from repro.plotting.curves import LINES, Line, Panel, Panels, curves
from repro.plotting.style import INK, notice

_NATS = "cross-entropy (nats)"


def figure(records: Sequence[Record]) -> Figure:
    """Draw train and test loss of every method, with a column per data set and precision.

    A panel's vertical axis is logarithmic if its largest loss is ten times its smallest, or more.
    """
    panels: Panels = {}
    for group, kind in product(_ordered(records), ("train", "test")):
        column, method = ", ".join(headings(group.point)), _method(group)
        panel = panels.setdefault((kind, column), Panel(f"{column}, {kind}"))
        seeds = [record.metrics[f"{kind}_loss"] for record in group.evaluated]
        panel.lines.append(Line(method, LINES[method], seeds, group.profile, group.caveat))
    return curves(panels, _NATS, (4.6, 2.5), log_from=10)


def clouds(records: Sequence[Record]) -> Figure:
    """Draw each run on ModelNet40: test accuracy with the published one, and test loss.

    Thin vertical lines mark the numbers of epochs at which accuracies are compared. The train loss
    is left out: in records of before 25 November 2026 it is the loss of the first 1,000 clouds,
    which have three of the 40 classes.
    """
    accuracy, loss = Panel("ModelNet40, test accuracy"), Panel("ModelNet40, test loss")
    printed: dict[str, float] = {}
    runs = [run for run in of_kind(records, "run") if run.point["dataset"] == "modelnet40"]
    for run in sorted(runs, key=lambda run: place(run.point)):
        method = ROW_LABELS[str(run.point["method"])]
        look = {**LINES[method], "linewidth": 1.0}
        values = [100 * value for value in run.metrics["test_accuracy"]]
        accuracy.lines.append(Line(method, look, [values]))
        loss.lines.append(Line(method, look, [run.metrics["test_loss"]]))
        printed[method] = published()[key(run.point)]
    if not printed:
        return notice("No training run on ModelNet40 is recorded yet.")
    for method, value in printed.items():
        look = {"color": LINES[method]["color"], "linewidth": 2.5, "alpha": 0.35}
        accuracy.marks.append((value, look))
    figure = curves({("", "left"): accuracy, ("", "right"): loss}, "%", (4.6, 3), marks="published")
    for panel, epochs in product(figure.axes, CLOUD_EPOCHS):
        panel.axvline(epochs, color=INK, linewidth=0.5, alpha=0.4)
    left, right = figure.axes
    left.set_ylim(0, 100)
    right.set_ylabel(_NATS)
    return figure


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
