"""Stacked bars of the phases of training, arm by arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

_LOOKS: dict[str, str] = {
    "Forward": BLUE,
    "Loss": PINK,
    "ZO Perturb": ORANGE,
    "ZO Update": GREEN,
    "Backward": INK,
    "other": "#c4c4c4",
}
"""A phase has the same colour in every figure, and lies in this order from the left."""
_HEIGHT = 0.78
_MARK: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": "white",
    "linewidth": 0.8,
    "path_effects": [withStroke(linewidth=2.2, foreground="black")],
}
"""Of the published range, to be seen on every phase."""


@dataclass(frozen=True)
class PhaseBar:
    """One stacked bar."""

    name: str
    lengths: Mapping[str, float]
    """By phase."""
    remark: str = ""
    """What stands at its end."""
    marked: tuple[float, float] | None = None
    """A range in which the paper has the end of the first phase."""


@dataclass(frozen=True)
class Panel:
    """Groups of bars under one title, by heading."""

    title: str
    groups: Mapping[str, Sequence[PhaseBar]]


def phases(rows: Sequence[Sequence[Panel]], unit: str) -> Figure:
    """Draw the panels; ``unit`` is what the bars' lengths are in."""
    bars = max(sum(len(group) + 1 for group in p.groups.values()) for row in rows for p in row)
    columns = max(len(row) for row in rows)
    with style():
        figure, grid = plt.subplots(
            len(rows),
            columns,
            figsize=(5.2 * columns, len(rows) * (0.24 * bars + 0.7) + 0.4),
            squeeze=False,
        )
        for axes, row in zip(grid, rows, strict=True):
            for panel, content in zip(axes, row, strict=True):
                _panel(panel, content, unit)
        handles: list[Any] = [Patch(label=phase, color=look) for phase, look in _LOOKS.items()]
        if any(bar.marked for row in rows for p in row for g in p.groups.values() for bar in g):
            handles.append(Patch(label="end of Forward, as published", **_MARK))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _panel(panel: Axes, content: Panel, unit: str) -> None:
    place, names = 0, {}
    for heading, bars in content.groups.items():
        panel.annotate(
            heading, (0, place), (3, 0), textcoords="offset points", va="center",
            fontweight="bold", fontsize=8,
        )  # fmt: skip
        place += 1
        for bar in bars:
            left = 0.0
            for phase, look in _LOOKS.items():
                length = bar.lengths.get(phase, 0.0)
                panel.barh(place, length, _HEIGHT, left=left, color=look, linewidth=0)
                left += length
            if bar.marked:
                low, high = bar.marked
                panel.barh(place, high - low, 1, left=low, zorder=3, **_MARK)
            panel.annotate(f" {bar.remark}", (left, place), va="center", fontsize=7.5)
            names[place] = bar.name
            place += 1
    panel.set_title(content.title)
    panel.set_yticks(list(names), list(names.values()))
    panel.set_ylim(place - 0.4, -0.6)
    panel.set_xlabel(unit)
    longest = max(sum(bar.lengths.values()) for bars in content.groups.values() for bar in bars)
    panel.set_xticks([tick for tick in panel.get_xticks() if tick <= 1.001 * longest])
    panel.set_xlim(0, 1.28 * longest)  # room for the remarks
    panel.grid(visible=False, axis="y")
