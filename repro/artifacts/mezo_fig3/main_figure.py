"""Draw the main figure: the ratio of BP's memory to MeZO's, published, computed and simulated."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from repro.artifacts.shared.savings import ratios
from repro.measurement.records import Record, of_kind
from repro.memory.analytic import sizes_of
from repro.memory.readings import RECOVERED
from repro.memory.shape import DecoderShape
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

AXES = {"context": "context length N", "layers": "layers L", "hidden": "hidden dimension D"}
BP_LABELS = {"bp": "BP without checkpointing", "bp_checkpoint": "BP with checkpointing"}
"""The figure's rows of panels."""


class PrintedRatio(NamedTuple):
    """A ratio that section 2.4 prints."""

    value: float
    at: int
    """The value on the axis at which the paper gives it."""
    moved_to: int | None = None
    """The value at which the recovered equations give it, if another."""


PRINTED: dict[tuple[str, str], tuple[PrintedRatio, ...]] = {
    ("bp", "context"): (PrintedRatio(25, 32768, RECOVERED.long_context),),
    ("bp", "layers"): (PrintedRatio(1.2, 1), PrintedRatio(4.23, 100)),
    ("bp", "hidden"): (PrintedRatio(24, 512),),
    ("bp_checkpoint", "context"): (PrintedRatio(5, 32768, RECOVERED.long_context),),
    ("bp_checkpoint", "layers"): (PrintedRatio(2.28, 17), PrintedRatio(2.17, 100)),
    ("bp_checkpoint", "hidden"): (PrintedRatio(5, 512),),
}
"""Printed ratios by method and axis. The paper gives 2.28 "at lower L"; we put it at the L of the
largest ratio."""
_LARGEST_DEPTH = 100
_STAR: dict[str, Any] = {"marker": "*", "markersize": 12, "linestyle": "none", "color": ORANGE}
_MARKS: dict[str, dict[str, Any]] = {
    "eager": {"marker": "o", "markersize": 4, "linestyle": "none", "color": BLUE},
    "sdpa": {
        "marker": "o", "markersize": 6, "linestyle": "none", "color": BLUE,
        "markerfacecolor": "none",
    },
}  # fmt: skip
_RECOVERED: dict[str, Any] = {"color": PINK, "linewidth": 1.8}
_AS_PRINTED: dict[str, Any] = {"color": GREEN, "linestyle": "--", "linewidth": 1.4}


def fig3(records: Sequence[Record]) -> Figure:
    """Draw the ratio over N, L and D: the upper row without checkpointing, the lower with it."""
    config = records[0].config
    curves = {
        record.point["axis"]: record.metrics
        for record in of_kind(records, "analytic")
        if record.point["scope"] == "paper"
    }
    points = ratios(of_kind(records, "simulated"))
    with style():
        figure, grid = plt.subplots(2, 3, figsize=(10.5, 6.2), sharex="col")
        for row, (method, name) in zip(grid, BP_LABELS.items(), strict=True):
            for panel, axis in zip(row, AXES, strict=True):
                _panel(panel, axis, method, curves.get(axis), config)
                others = [name for name in AXES if name != axis]
                for point in points:
                    if point.method == method and all(
                        getattr(point, name) == config[name] for name in others
                    ):
                        panel.plot(getattr(point, axis), point.ratio, **_MARKS[point.attention])
                _stars(panel, PRINTED[method, axis])
                panel.set_ylim(0, 1.08 * panel.get_ylim()[1])
                panel.yaxis.set_major_locator(MaxNLocator(6))
                panel.yaxis.set_major_formatter("{x:g}×")  # noqa: RUF001
            row[0].set_title(name, fontweight="bold")
            row[0].set_ylabel("memory of BP / memory of MeZO")
        for panel, label in zip(grid[-1], AXES.values(), strict=True):
            panel.set_xlabel(label)
        figure.suptitle(
            f"Llama 2, N = {config['context']}, L = {config['layers']}, D = {config['hidden']} "
            "unless varied",
            fontsize=10.5,
        )
        figure.legend(
            handles=[
                Line2D([], [], label="printed in the text", **_STAR),
                Line2D([], [], label="the same, at N = 16,384", **_STAR, markerfacecolor="none"),
                Line2D([], [], label="equations as printed", **_AS_PRINTED),
                Line2D([], [], label="equations recovered from the text", **_RECOVERED),
                Line2D([], [], label="simulated, eager attention", **_MARKS["eager"]),
                Line2D([], [], label="simulated, SDPA", **_MARKS["sdpa"]),
            ],
            loc="outside lower center",
            ncols=3,
        )
    return figure


def recovered_ratio(config: dict[str, Any], axis: str, values: Sequence[int], method: str) -> Any:  # noqa: ANN401 - an array
    """Return the ratio by the recovered equations along one axis."""
    names = ("context", "layers", "hidden", "heads", "vocabulary", "batch")
    shape = DecoderShape(**{name: config[name] for name in names})
    varied: dict[str, Any] = {axis: np.asarray(values, dtype=float)}
    s = sizes_of(shape, config["bytes_per_parameter"], **varied)
    reading = replace(RECOVERED, live_layers=config["live_layers"])
    return reading.ratio(s, checkpointing=method == "bp_checkpoint")


def _panel(
    panel: Axes, axis: str, method: str, curve: dict[str, Any] | None, config: dict[str, Any]
) -> None:
    panel.margins(x=0.06)
    if axis != "layers":
        panel.set_xscale("log", base=2)
    if curve is None:  # the equations were not computed in this run
        return
    values = curve["values"]
    printed = np.array(curve[f"{method}_bytes"]) / np.array(curve["mezo_bytes"])
    panel.plot(values, recovered_ratio(config, axis, values, method), **_RECOVERED)
    panel.plot(values, printed, **_AS_PRINTED)
    if axis != "layers":
        label_powers_of_two(panel, values)


def _stars(panel: Axes, printed: Sequence[PrintedRatio]) -> None:
    """Mark the printed ratios, each with its number where the lines leave room."""
    for number in printed:
        panel.plot(number.at, number.value, **_STAR, zorder=4)
        offset, align, at = (8, 4), "left", number.at
        if number.moved_to is not None:
            panel.plot(number.moved_to, number.value, **_STAR, markerfacecolor="none", zorder=4)
            offset, align, at = (-9, -3), "right", number.moved_to
        elif number.at == _LARGEST_DEPTH:
            offset, align = (0, -14), "right"
        panel.annotate(
            f"{number.value:g}×",  # noqa: RUF001
            (at, number.value),
            xytext=offset,
            textcoords="offset points",
            ha=align,
            color=INK,
            fontsize=8.5,
        )


def label_powers_of_two(panel: Axes, values: Sequence[int]) -> None:
    """Label the horizontal axis with powers of two over the range of ``values``, at most six."""
    first, last = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    panel.set_xticks([2**power for power in range(first, last + 1, -(-(last - first) // 5) or 1)])
    panel.xaxis.set_major_formatter("{x:g}")
