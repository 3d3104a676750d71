"""Draw and tabulate how accuracy and loss change over the epochs."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.artifacts.shared.columns import headings, place, published
from repro.claims.elasticzo import CLOUD_EPOCHS, ROW_LABELS
from repro.claims.quantity import key
from repro.claims.trained import SeedGroup, SeedGroups
from repro.measurement.records import Record, of_kind
from repro.plotting.curves import LINES, LossCurve, curves
from repro.plotting.style import INK, notice, style

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


def clouds(records: Sequence[Record]) -> Figure:
    """Draw each run on ModelNet40: test accuracy with the published one, and test loss.

    Thin vertical lines mark the numbers of epochs at which accuracies are compared. The train loss
    is left out: in records of before 25 November 2026 it is the loss of the first 1,000 clouds,
    which have three of the 40 classes.
    """
    runs: dict[str, list[Record]] = {}
    for record in of_kind(records, "run"):
        if record.point["dataset"] == "modelnet40":
            runs.setdefault(ROW_LABELS[str(record.point["method"])], []).append(record)
    if not runs:
        return notice("No training run on ModelNet40 is recorded yet.")
    kinds = {
        "test_accuracy": ("test accuracy", "%", 100.0),
        "test_loss": ("test loss", "cross-entropy (nats)", 1.0),
    }
    with style():
        figure, panels = plt.subplots(1, len(kinds), figsize=(9.2, 3.4))
        for panel, (name, (title, unit, scale)) in zip(panels, kinds.items(), strict=True):
            for method, seeds in runs.items():
                for seed in seeds:
                    values = [scale * value for value in seed.metrics[name]]
                    panel.plot(range(len(values)), values, linewidth=1.0, **LINES[method])
            for epochs in CLOUD_EPOCHS:
                panel.axvline(epochs, color=INK, linewidth=0.5, alpha=0.4)
            panel.set(title=f"ModelNet40, {title}", xlabel="epoch", ylabel=unit)
        printed = published()
        for method, seeds in runs.items():
            colour = LINES[method]["color"]
            panels[0].axhline(printed[key(seeds[0].point)], color=colour, linewidth=2.5, alpha=0.35)
        panels[0].set_ylim(0, 100)
        handles = [Line2D([], [], label=name, **LINES[name]) for name in LINES if name in runs]
        handles.append(Line2D([], [], color=INK, linewidth=2.5, alpha=0.35, label="published"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
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
