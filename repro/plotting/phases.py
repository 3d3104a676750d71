"""Stacked bars of the phases of training, arm by arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    """Text at its end."""
    marked: tuple[float, float] | None = None
    """A published range."""


@dataclass(frozen=True)
class Panel:
    """Groups of bars under one title, by heading."""

    title: str
    groups: Mapping[str, Sequence[PhaseBar]]


def phases(rows: Sequence[Sequence[Panel]], unit: str, mark: str) -> "Figure":
    """Draw the panels; those of a column share their axis.

    Args:
        rows: panels, row by row.
        unit: of the bars' lengths.
        mark: label of the marked ranges in the legend.
    """
    bars = max(sum(len(group) + 1 for group in p.groups.values()) for row in rows for p in row)
    columns = max(len(row) for row in rows)
    with style():
        figure, grid = plt.subplots(
            len(rows),
            columns,
            figsize=(4.6 * columns + 0.8, len(rows) * (0.24 * bars + 0.5) + 0.6),
            squeeze=False,
            sharex="col",
        )
        for axes, row in zip(grid, rows, strict=True):
            for panel, content in zip(axes, row, strict=True):
                _panel(panel, content)
        for axes in grid.T:
            longest = max(panel.dataLim.x1 for panel in axes)
            axes[0].set_xlim(0, 1.45 * longest)  # room for the remarks
            axes[0].set_xticks([tick for tick in axes[0].get_xticks() if tick <= 1.001 * longest])
            axes[-1].set_xlabel(unit)
        handles: list[Any] = [Patch(label=phase, color=look) for phase, look in _LOOKS.items()]
        if any(bar.marked for row in rows for p in row for g in p.groups.values() for bar in g):
            handles.append(Patch(label=mark, **_MARK))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _panel(panel: "Axes", content: Panel) -> None:
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
                left = max(left, high)
            panel.annotate(f"  {bar.remark}", (left, place), va="center", fontsize=7.5)
            names[place] = bar.name
            place += 1
    panel.set_title(content.title)
    panel.set_yticks(list(names), list(names.values()))
    panel.set_ylim(place - 0.4, -0.6)
    panel.grid(visible=False, axis="y")
