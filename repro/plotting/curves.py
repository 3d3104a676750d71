"""Draw values by epoch: a grid of panels with the mean of each line over seeds, and its range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from repro.core.names import METHOD_LABELS
from repro.plotting.style import (
    INK,
    METHOD_COLOURS,
    PAPER,
    label_logarithms,
    notice,
    remark,
    style,
    title,
)

Look = Mapping[str, Any]
"""Colour, dashes, width and markers of a line, as matplotlib's keywords."""
LINES: dict[str, dict[str, Any]] = {
    METHOD_LABELS["full_zo"]: {"color": METHOD_COLOURS["full_zo"], "linestyle": "solid"},
    METHOD_LABELS["cls2"]: {"color": METHOD_COLOURS["cls2"], "linestyle": (0, (5, 1.5))},
    METHOD_LABELS["cls1"]: {"color": METHOD_COLOURS["cls1"], "linestyle": (0, (3, 1.2, 1, 1.2))},
    METHOD_LABELS["full_bp"]: {"color": METHOD_COLOURS["full_bp"], "linestyle": (0, (1, 1.2))},
}
"""The line of each method, the same in every figure; dashes help readers without colour vision."""


@dataclass(frozen=True)
class Line:
    """One line of a panel."""

    label: str
    look: Look
    seeds: Sequence[Sequence[float]]
    """The values of each seed by epoch."""
    profile: str = PAPER
    """Profile of the records."""
    caveat: str = ""
    """A limit of the mean over seeds, as in ``1 of 3 diverged``."""


@dataclass(frozen=True)
class Panel:
    """One panel: its title, its lines, and the heights and looks of horizontal marks."""

    title: str
    lines: list[Line] = field(default_factory=list)
    marks: list[tuple[float, Look]] = field(default_factory=list)


Panels = dict[tuple[str, str], Panel]
"""Panels by row and column."""


def curves(
    panels: Panels,
    y_label: str,
    size: tuple[float, float],
    *,
    first: int = 0,
    log_from: float = math.inf,
    share_y: bool = False,
    apart: bool = False,
    marks: str = "",
    legend_columns: int = 5,
) -> Figure:
    """Draw a panel for each row and column, both in the order of their first appearance.

    The mean of a line ends where its first seed ends, so diverged seeds are included. A profile
    other than the published one is named in the panel's title, or in the panel's legend if it has
    several profiles. The panel's legend also gives the number of diverged seeds.

    Args:
        panels: the panels by row and column.
        y_label: label of the vertical axes.
        size: width and height of a panel in inches.
        first: epoch of the first value of every line.
        log_from: ratio of a panel's largest to its smallest value from which its vertical axis is
            logarithmic.
        share_y: whether all panels have the same vertical axis.
        apart: whether every panel has its own epochs and legend, and seeds as thin lines, not as a
            range. Otherwise a column has the same epochs, and the figure a common legend.
        marks: the legend's label of the horizontal marks; none without it.
        legend_columns: largest number of columns of the common legend.
    """
    if not panels:
        return notice("no run to draw")
    rows, columns = (list(dict.fromkeys(places)) for places in zip(*panels, strict=True))
    width, height = size[0] * len(columns), size[1] * len(rows)
    with style():
        figure, grid = plt.subplots(
            len(rows),
            len(columns),
            figsize=(width, height if apart else height + 0.4),
            sharex="none" if apart else "col",
            sharey=share_y,
            squeeze=False,
        )
        for axes, place in zip(grid.flat, product(rows, columns), strict=True):
            if place in panels:
                _draw(axes, panels[place], first, log_from, apart=apart)
            elif apart:
                axes.set_axis_off()
        for axes in grid.flat if apart else grid[-1]:
            axes.set_xlabel("epoch")
        for axes in grid[:, 0]:
            axes.set_ylabel(y_label)
        if not apart:
            lines = {line.label: line.look for panel in panels.values() for line in panel.lines}
            handles: list[Any] = [_key(look, label) for label, look in lines.items()]
            looks = [look for panel in panels.values() for _, look in panel.marks]
            if marks and looks:
                handles.append(_key({**looks[0], "color": INK}, marks))
            # only ranges are collections, and only several seeds have one
            if any(axes.collections for axes in grid.flat):
                handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="range over seeds"))
            figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns)
    return figure


def _draw(axes: Axes, panel: Panel, first: int, log_from: float, *, apart: bool) -> None:
    profiles = {line.profile for line in panel.lines}
    axes.set_title(title(panel.title, profiles))
    keys = []
    for line in panel.lines:
        _plot(axes, line, first, thin_seeds=apart)
        said = remark(line.profile, line.caveat, profiles)
        if said or apart:
            keys.append(_key(line.look, f"{line.label}: {said}" if said else line.label))
    for height, look in panel.marks:
        axes.axhline(height, **look)
    if keys:
        axes.legend(handles=keys, loc="lower right" if apart else "best")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    every = [value for line in panel.lines for seed in line.seeds for value in seed]
    spread = max(every) / min(every) if every and min(every) > 0 else 0
    if spread >= log_from:
        axes.set_yscale("log")
        label_logarithms(axes.yaxis, spread)


def _plot(axes: Axes, line: Line, first: int, *, thin_seeds: bool) -> None:
    begun = [seed for seed in line.seeds if len(seed)]  # another diverged before its first epoch
    values = np.array([*zip(*begun, strict=False)]).T  # [seeds, epochs]
    if not len(values):
        return
    epochs = range(first, first + values.shape[1])
    axes.plot(epochs, values.mean(axis=0), **line.look)
    if len(values) > 1 and thin_seeds:
        for seed in line.seeds:
            axes.plot(range(first, first + len(seed)), seed, **line.look, linewidth=0.6, alpha=0.5)
    elif len(values) > 1:
        ends, colour = (values.min(axis=0), values.max(axis=0)), line.look["color"]
        axes.fill_between(epochs, *ends, color=colour, alpha=0.2, linewidth=0)


def _key(look: Look, label: str) -> Line2D:
    return Line2D([], [], label=label, **look)
