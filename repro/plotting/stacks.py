"""Stacked bars of memory: as published, and account by account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from repro.core.units import KIB, MIB
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

_LOOKS: dict[str, dict[str, Any]] = {
    "parameters": {"color": INK},
    "gradients": {"color": ORANGE},
    "activations": {"color": BLUE},
    "errors": {"color": PINK},
    "int32 buffers": {"color": GREEN},
    "input batch": {"color": "#b8b8b8"},
    "other tensors": {"color": "#e3d9a6"},
    "not told apart": {"facecolor": "#dce6ef", "hatch": "////", "edgecolor": "#8aa4bd"},
}
"""A part looks the same in every figure, and lies in this order from the bottom up."""
_HEIGHT = 0.8
_ROW_INCHES = 0.17


@dataclass(frozen=True)
class MemoryBar:
    """One stacked bar."""

    name: str
    parts: Mapping[str, int]
    """Bytes by part."""
    remark: str = ""
    """What stands at its end."""


Groups = Mapping[str, Sequence[MemoryBar]]


@dataclass(frozen=True)
class MemoryPanel:
    """One row of the figure."""

    title: str
    published: Sequence[MemoryBar]
    """Bars as the paper draws them."""
    extra: Mapping[str, Mapping[str, int]]
    """What some of them take more than the least: bytes by part, for the inset."""
    accounts: Groups
    """All accounts of each published bar."""


def stacks(settings: Sequence[MemoryPanel]) -> Figure:
    """Draw a row for each setting: on the left the published bars, on the right all accounts."""
    bars = max(sum(len(group) + 1 for group in s.accounts.values()) for s in settings)
    with style():
        figure, grid = plt.subplots(
            len(settings),
            2,
            figsize=(11, len(settings) * (bars * _ROW_INCHES + 0.6) + 0.4),
            width_ratios=(1, 1.45),
            squeeze=False,
        )
        shown: set[str] = set()
        for (left, right), setting in zip(grid, settings, strict=True):
            _published(left, setting)
            _accounts(right, setting.accounts)
            right.set_title(f"{setting.title}: all accounts (ratio to the formula)")
            for bar in (*setting.published, *(b for g in setting.accounts.values() for b in g)):
                shown |= set(bar.parts)
        handles = [Patch(label=part, **look) for part, look in _LOOKS.items() if part in shown]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _published(panel: Axes, setting: MemoryPanel) -> None:
    for place, bar in enumerate(setting.published):
        bottom = 0.0
        for part, look in _LOOKS.items():
            size = bar.parts.get(part, 0) / MIB
            panel.bar(place, size, 0.62, bottom=bottom, linewidth=0, **look)
            bottom += size
        panel.annotate(f"{bottom:.1f}", (place, bottom), ha="center", va="bottom", fontsize=8)
    panel.set_xticks(range(len(setting.published)), [bar.name for bar in setting.published])
    panel.set_ylabel("MiB")
    panel.set_title(f"{setting.title}: formula, as published")
    panel.grid(visible=False, axis="x")
    panel.set_ylim(top=1.1 * panel.get_ylim()[1])
    if setting.extra:
        _inset(panel.inset_axes((0.53, 0.62, 0.44, 0.28)), setting.extra)


def _inset(panel: Axes, extra: Mapping[str, Mapping[str, int]]) -> None:
    """Draw what the bars take more than the least, which they are too large to show."""
    for place, parts in enumerate(extra.values()):
        left = 0.0
        for part, look in _LOOKS.items():
            size = parts.get(part, 0) / KIB
            panel.barh(place, size, 0.6, left=left, linewidth=0, **look)
            left += size
        panel.annotate(f" {left:.1f} KiB", (left, place), ha="left", va="center", fontsize=7)
    panel.set_yticks(range(len(extra)), list(extra), fontsize=7)
    panel.set_xticks([])
    panel.set_xlim(right=1.6 * panel.get_xlim()[1])
    panel.set_ylim(len(extra) - 0.4, -0.6)
    panel.set_title("more than Full ZO", fontsize=7.5, loc="center")
    panel.grid(visible=False)


def _accounts(panel: Axes, groups: Groups) -> None:
    place, names = 0, {}
    for group, bars in groups.items():
        panel.annotate(
            group, (0, place), (3, 0), textcoords="offset points", va="center", fontweight="bold",
            fontsize=8,
        )  # fmt: skip
        place += 1
        for bar in bars:
            left = 0.0
            for part, look in _LOOKS.items():
                size = bar.parts.get(part, 0) / MIB
                panel.barh(place, size, _HEIGHT, left=left, linewidth=0, **look)
                left += size
            panel.annotate(f" {bar.remark}", (left, place), va="center", fontsize=7)
            names[place] = bar.name
            place += 1
    panel.set_yticks(list(names), list(names.values()), fontsize=7)
    panel.set_ylim(place - 0.4, -0.6)
    panel.set_xlabel("MiB")
    panel.set_xlim(0, 1.27 * panel.get_xlim()[1])  # room for the remarks
    panel.grid(visible=False, axis="y")
