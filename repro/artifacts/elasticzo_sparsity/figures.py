"""Test accuracy by epoch, with and without the schedule."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts.elasticzo_sparsity import PAPER
from repro.artifacts.scores import published
from repro.claims.elasticzo import DATASETS
from repro.claims.quantity import Point, key
from repro.claims.trained import Cell, Cells
from repro.drawing.remarks import remark, title
from repro.drawing.style import INK, style
from repro.measurement.records import Record

_SCHEDULE = "0.33, then 0.5, then 0.9"
_PUBLISHED: dict[str, Any] = {"linestyle": ":"}


def sparsity(records: Sequence[Record]) -> Figure:
    """Draw a panel for each data set: mean and range of each arm over seeds, and the published.

    That is the accuracy after 100 epochs, a dotted line. An arm ends where its first seed does.
    """
    cells = list(Cells(records))
    datasets = [name for name in DATASETS if any(c.point["dataset"] == name for c in cells)]
    arms = sorted({cell.point["p_zero"] for cell in cells}, key=str, reverse=True)
    colours = dict(zip(arms, sns.color_palette("colorblind"), strict=False))
    with style():
        figure, panels = plt.subplots(
            1, len(datasets), figsize=(4.4 * len(datasets), 3.1), squeeze=False, sharey=True
        )
        for panel, dataset in zip(panels.flat, datasets, strict=True):
            _panel(panel, dataset, [c for c in cells if c.point["dataset"] == dataset], colours)
        panels[0, 0].set_ylabel("test accuracy (%)")
        handles: list[Any] = [
            Line2D([], [], color=colour, label=_label(arm)) for arm, colour in colours.items()
        ]
        handles.append(Line2D([], [], color=INK, label="published, by colour", **_PUBLISHED))
        handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="range over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _panel(panel: Axes, dataset: str, cells: Sequence[Cell], colours: Mapping[Any, Any]) -> None:
    profiles = {cell.profile for cell in cells}
    remarks = []
    for cell in sorted(cells, key=lambda cell: list(colours).index(cell.point["p_zero"])):
        colour = colours[cell.point["p_zero"]]
        seeds = [record.metrics["test_accuracy"] for record in cell.evaluated]
        epochs = [[100 * one for one in at] for at in zip(*seeds, strict=False)]
        panel.plot([fmean(at) for at in epochs], color=colour)
        lowest, highest = map(min, epochs), map(max, epochs)
        panel.fill_between(
            range(len(epochs)), [*lowest], [*highest], color=colour, alpha=0.2, linewidth=0
        )
        panel.axhline(_published(cell), color=colour, **_PUBLISHED)
        if said := remark(cell.profile, cell.caveat, profiles):
            remarks.append(Line2D([], [], color=colour, label=said))
    panel.set(title=title(DATASETS[dataset], profiles), xlabel="epoch")
    if remarks:
        panel.legend(handles=remarks, loc="best")


def _published(cell: Cell) -> float:
    """Return what the paper prints of an arm: of the schedule, in Table 1."""
    point: Point = {"dataset": cell.point["dataset"], "precision": "int8", "method": "full_zo"}
    if cell.point["p_zero"] is not None:
        point = {**point, "p_zero": PAPER.p_zero}
    return published()[key(point)]


def _label(p_zero: object) -> str:
    return f"$p_{{zero}}$ = {_SCHEDULE if p_zero is None else f'{p_zero} in every epoch'}"


FIGURES = {"sparsity": sparsity}
CAPTIONS = {
    "sparsity": "Test accuracy of Full ZO in INT8 by epoch, with rising and with fixed sparsity",
}
