"""Draw accuracy over forward passes and over time, and the memory of a step."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from repro.artifacts.zo_methods.arms import ARMS, ComparedMethod
from repro.artifacts.zo_methods.comparison import MethodSeeds, TaskComparison, comparisons
from repro.claims.statistics import SEEDS_FOR_AN_INTERVAL, estimate
from repro.core.units import format_bytes
from repro.measurement.records import Record
from repro.plotting.style import INK, PALETTE, notice, seed_counts, style

_COSTS = {"forward_passes": "forward passes, by FLOPs", "cpu_seconds": "CPU time (s)"}
_VALUES = {"accuracy": "accuracy (%)", "loss": "loss"}


def zo_methods(records: Sequence[Record]) -> Figure:
    """Draw a row for each task: accuracy over both costs, and peak memory.

    Runs that shared a GPU have no comparable time, nor do methods that all ran on several
    processors; then the loss is drawn instead. Methods that ran on another processor than most are
    left out of the panel over time.

    Lines are means over seeds; shades are 95 % intervals, from three seeds on.
    """
    found = [one for one in comparisons(records) if one.lines]
    if not found:
        return notice("every run diverged")
    with style():
        figure, grid = plt.subplots(
            len(found), 3, figsize=(12.2, 3.2 * len(found) + 0.7), squeeze=False
        )
        for row, comparison in zip(grid, found, strict=True):
            _curves(row[0], comparison.lines, "forward_passes", "accuracy")
            seeds = seed_counts(len(line.records) for line in comparison.lines)
            row[0].set_title(f"{comparison.name}, {seeds}")
            if comparison.timed:
                _curves(row[1], comparison.timed, "cpu_seconds", "accuracy")
                row[1].sharey(row[0])
                row[1].set_title(_left_out(comparison))
            else:
                _curves(row[1], comparison.lines, "forward_passes", "loss")
            _memory(row[2], comparison)
        shown = {line.name for comparison in found for line in comparison.lines}
        handles: list[Any] = [
            Line2D([], [], color=_colour(arm), label=arm.label)
            for name, arm in ARMS.items()
            if name in shown
        ]
        if any(panel.collections for row in grid for panel in row[:2]):
            handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="95 % over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=7)
    return figure


def _left_out(comparison: TaskComparison) -> str:
    """Return which methods have no comparable time, or nothing."""
    names = [line.arm.label for line in comparison.lines if line not in comparison.timed]
    return f"without {' and '.join(names)} (on another processor)" if names else ""


def _curves(panel: Axes, lines: Sequence[MethodSeeds], cost: str, value: str) -> None:
    """Draw ``value`` of each method over ``cost``."""
    for line in lines:
        _curve(panel, line, cost, value)
    panel.set(xlabel=_COSTS[cost], ylabel=_VALUES[value])
    panel.set_xlim(left=0)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter("{x:,.0f}")


def _curve(panel: Axes, line: MethodSeeds, cost: str, value: str) -> None:
    """Draw the mean over seeds at each evaluation, and a mark at its end."""
    colour = _colour(line.arm)
    costs = np.mean([record.metrics[cost] for record in line.records], axis=0)
    unit = 100 if value == "accuracy" else 1
    heights = unit * np.array([record.metrics[value] for record in line.records])
    mean = heights.mean(axis=0)
    panel.plot(costs, mean, color=colour, linewidth=1.5)
    panel.plot(costs[-1], mean[-1], "o", color=colour, markersize=4)
    if len(heights) >= SEEDS_FOR_AN_INTERVAL:
        half = np.array([estimate(list(at)).interval for at in heights.T], dtype=float)
        panel.fill_between(costs, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)


def _memory(panel: Axes, comparison: TaskComparison) -> None:
    """Draw a bar for each method, in the order of their accuracy; the weights are darker."""
    for place, line in enumerate(comparison.lines):
        metrics, colour = line.step.metrics, _colour(line.arm)
        panel.barh(place, metrics["peak_bytes"], 0.6, color=colour, alpha=0.6, linewidth=0)
        panel.barh(place, metrics["weights_bytes"], 0.6, color=colour, linewidth=0)
        panel.annotate(
            format_bytes(metrics["peak_bytes"]), (metrics["peak_bytes"], place), (3, 0),
            textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip
    labels = [line.arm.label for line in comparison.lines]
    panel.set_yticks(range(len(labels)), labels, fontsize=7.5)
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.grid(visible=False, axis="y")
    panel.set_xlim(0, 1.2 * panel.get_xlim()[1])  # room for the last number
    panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_bytes(count)))
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.set(title="peak memory of a step", xlabel="weights (dark) and the rest of a step")


def _colour(arm: ComparedMethod) -> Any:  # noqa: ANN401 - as matplotlib takes it
    """Return the colour of a method; beyond the palette the first ones come again."""
    return PALETTE[arm.colour % len(PALETTE)]
