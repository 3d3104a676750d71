"""Test accuracy by epoch, with and without the schedule."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.artifacts.elasticzo_sparsity import PAPER
from repro.artifacts.scores import published
from repro.claims.elasticzo import DATASETS
from repro.claims.quantity import Point, key
from repro.claims.trained import Cell, Cells
from repro.drawing.remarks import remark, title
from repro.drawing.style import INK, style
from repro.measurement.records import Record

_SCHEDULE = "0.33, then 0.5, then 0.9"
_PUBLISHED: dict[str, Any] = {"color": INK, "linestyle": ":"}


def sparsity(records: Sequence[Record]) -> Figure:
    """Draw a panel for each data set; the published accuracy after 100 epochs is a dotted line.

    The mean of an arm ends where its first seed does.
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
        handles: list[Line2D] = [
            Line2D([], [], color=colour, label=_label(arm)) for arm, colour in colours.items()
        ]
        handles.append(Line2D([], [], label="published, fixed", **_PUBLISHED))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _panel(panel: Axes, dataset: str, cells: Sequence[Cell], colours: Mapping[Any, Any]) -> None:
    profiles = {cell.profile for cell in cells}
    remarks = []
    for cell in sorted(cells, key=lambda cell: list(colours).index(cell.point["p_zero"])):
        colour = colours[cell.point["p_zero"]]
        seeds = [record.metrics["test_accuracy"] for record in cell.evaluated]
        panel.plot([100 * fmean(v) for v in zip(*seeds, strict=False)], color=colour)
        if said := remark(cell.profile, cell.caveat, profiles):
            remarks.append(Line2D([], [], color=colour, label=said))
    fixed: Point = {
        "dataset": dataset,
        "precision": "int8",
        "method": "full_zo",
        "p_zero": PAPER.p_zero,
    }
    panel.axhline(published()[key(fixed)], **_PUBLISHED)
    panel.set(title=title(DATASETS[dataset], profiles), xlabel="epoch")
    if remarks:
        panel.legend(handles=remarks, loc="best")


def _label(p_zero: object) -> str:
    return f"$p_{{zero}}$ = {_SCHEDULE if p_zero is None else f'{p_zero} in every epoch'}"


FIGURES = {"sparsity": sparsity}
CAPTIONS = {
    "sparsity": "Test accuracy of Full ZO in INT8 by epoch, with rising and with fixed sparsity",
}
