"""Draw memory over N, L and D: BP over MeZO, both alone, and the formula against what is observed.

``fig3`` is the main figure: the ratio of BP's memory to MeZO's, published, computed and simulated.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from repro.artifacts.shared.savings import QUOTED, SIZES, at, device_of, of_one_device, pairs
from repro.claims.index import CLAIMS
from repro.core.units import format_bytes
from repro.measurement.records import Record, of_kind
from repro.memory.analytic import sizes_of
from repro.memory.readings import RECOVERED
from repro.memory.shape import DecoderShape
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

BP_LABELS = {"bp": "BP without checkpointing", "bp_checkpoint": "BP with checkpointing"}
"""The figure's rows of panels."""


_PEAK_DEPTH = 17
"""Where the saving that the paper prints "at lower L" (A6) is drawn: the L of the largest ratio."""
_LARGEST_DEPTH = 100
_COLOURS = {"bp": ORANGE, "bp_checkpoint": ORANGE, "mezo": BLUE, "forward": BLUE}
_FILLED: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "none"}
_OPEN: dict[str, Any] = {**_FILLED, "markersize": 7.5, "markerfacecolor": "none"}
"""Style of a ring, inside which a filled point at the same place stays visible."""
_LOOKS = {"eager": _FILLED, "sdpa": _OPEN}
_STAR: dict[str, Any] = {"marker": "*", "markersize": 12, "linestyle": "none", "color": ORANGE}
_RATIOS: dict[str, dict[str, Any]] = {
    "eager": {**_FILLED, "color": BLUE},
    "sdpa": {**_OPEN, "markersize": 6, "color": BLUE},
}
_RECOVERED: dict[str, Any] = {"color": PINK, "linewidth": 1.8}
_AS_PRINTED: dict[str, Any] = {"color": GREEN, "linestyle": "--", "linewidth": 1.4}


def fig3(records: Sequence[Record]) -> Figure:
    """Draw the ratio over N, L and D: the upper row without checkpointing, the lower with it."""
    config = records[0].config
    curves = _lines(records, "paper")
    points = pairs(of_kind(records, "simulated"))
    with style():
        figure, grid = plt.subplots(2, 3, figsize=(10.5, 6.2), sharex="col")
        for row, (method, name) in zip(grid, BP_LABELS.items(), strict=True):
            for panel, axis in zip(row, SIZES, strict=True):
                fixed = {"method": method, **{n: config[n] for n in SIZES if n != axis}}
                _ratio_panel(panel, axis, method, curves.get(axis), at(points, fixed), config)
            row[0].set_title(name, fontweight="bold")
            row[0].set_ylabel("memory of BP / memory of MeZO")
        for panel, label in zip(grid[-1], SIZES.values(), strict=True):
            panel.set_xlabel(label)
        figure.suptitle(
            f"Llama 2, N = {config['context']}, L = {config['layers']}, D = {config['hidden']} "
            "unless varied",
            fontsize=10.5,
        )
        moved = f"the same, at N = {RECOVERED.long_context:,}"
        figure.legend(
            handles=[
                Line2D([], [], label="printed in the text", **_STAR),
                Line2D([], [], label=moved, **_STAR, markerfacecolor="none"),
                Line2D([], [], label="equations as printed", **_AS_PRINTED),
                Line2D([], [], label="equations recovered from the text", **_RECOVERED),
                Line2D([], [], label="simulated, eager attention", **_RATIOS["eager"]),
                Line2D([], [], label="simulated, SDPA", **_RATIOS["sdpa"]),
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


def _ratio_panel(
    panel: Axes,
    axis: str,
    method: str,
    curve: Mapping[str, Any] | None,
    points: pd.DataFrame,
    config: dict[str, Any],
) -> None:
    panel.margins(x=0.06)
    if axis != "layers":
        panel.set_xscale("log", base=2)
    if curve is not None:  # else the equations were not computed in this run
        values = curve["values"]
        printed = np.array(curve[f"{method}_bytes"]) / np.array(curve["mezo_bytes"])
        panel.plot(values, recovered_ratio(config, axis, values, method), **_RECOVERED)
        panel.plot(values, printed, **_AS_PRINTED)
        if axis != "layers":
            _label_powers_of_two(panel, values)
    for point in points.itertuples():
        panel.plot(getattr(point, axis), point.ratio, **_RATIOS[point.attention])
    printed_at = [("A6", _PEAK_DEPTH)] if (method, axis) == ("bp_checkpoint", "layers") else []
    printed_at += [
        (claim_id, quoted.value)
        for claim_id, quoted in QUOTED.items()
        if (quoted.method, quoted.axis) == (method, axis)
    ]
    for claim_id, place in printed_at:  # each with its number where the lines leave room
        ratio, place_of_number = CLAIMS[claim_id].published, place
        panel.plot(place, ratio, **_STAR, zorder=4)
        offset, align = (8, 4), "left"
        if axis == "context":
            place_of_number = RECOVERED.long_context
            panel.plot(place_of_number, ratio, **_STAR, markerfacecolor="none", zorder=4)
            offset, align = (-9, -3), "right"
        elif place == _LARGEST_DEPTH:
            offset, align = (0, -14), "right"
        panel.annotate(
            f"{ratio:g}×",  # noqa: RUF001
            (place_of_number, ratio),
            xytext=offset,
            textcoords="offset points",
            ha=align,
            color=INK,
            fontsize=8.5,
        )
    panel.set_ylim(0, 1.08 * panel.get_ylim()[1])
    panel.yaxis.set_major_locator(MaxNLocator(6))
    panel.yaxis.set_major_formatter("{x:g}×")  # noqa: RUF001


def fig3_memory(records: Sequence[Record]) -> Figure:
    """Draw the paper's six panels of memory, with the simulated points."""
    config = records[0].config
    title = (
        f"Llama 2 with N = {config['context']}, L = {config['layers']}, D = {config['hidden']} "
        f"unless varied (b = {config['bytes_per_parameter']:g}, L' = {config['live_layers']:g})"
    )
    base = {axis: config[axis] for axis in SIZES}
    return _six_panels(records, "paper", base, list(of_kind(records, "simulated")), title)


def fig3_measured(records: Sequence[Record]) -> Figure:
    """Draw the same six panels for the measured models."""
    config = records[0].config
    base = {
        "context": config["measure_context"],
        "layers": config["measure_depth"],
        "hidden": config["measure_hidden"],
    }
    dtype = config["measure_dtypes"][0]
    points = [r for r in of_kind(records, "measured") if r.point["dtype"] == dtype]
    points = of_one_device(points)
    device = " and ".join(sorted({device_of(point) for point in points})) or config["device"]
    title = (
        f"Llama models in {dtype} on {device}, N = {base['context']}, "
        f"L = {base['layers']}, D = {base['hidden']} unless varied"
    )
    return _six_panels(records, "measured", base, points, title)


def predicted(records: Sequence[Record]) -> Figure:
    """Draw the formula's value over the observed peak of every simulated and measured point."""
    groups: dict[str, list[Record]] = {}
    for kind in ("simulated", "measured"):
        for record in of_one_device(of_kind(records, kind)):
            if "peak_bytes" in record.metrics and record.point["method"] != "forward":
                groups.setdefault(f"{kind}, {record.point['dtype']}", []).append(record)
    with style():
        columns = max(1, len(groups))
        figure, (panels,) = plt.subplots(1, columns, figsize=(11, 4), sharey=True, squeeze=False)
        for panel, (name, group) in zip(panels, groups.items(), strict=False):
            for record in group:
                point, peak = record.point, record.metrics["peak_bytes"]
                look = dict(_LOOKS[point["attention"]])
                if point["method"] == "bp_checkpoint":
                    look["marker"] = "s"
                ratio = record.metrics["formula_bytes"] / peak
                panel.plot(peak, ratio, color=_COLOURS[point["method"]], **look)
            panel.axhline(1, color=INK, linewidth=0.8)
            panel.set_xscale("log")
            panel.set_yscale("log", base=2)
            panel.yaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_bytes(count)))
            panel.set_xlabel("peak of one step")
            panel.set_title(f"{name}: {len(group)} points")
        panels[0].set_ylabel("formula / observed peak")
        handles = [
            _handle("BP", ORANGE, **_FILLED),
            _handle("BP, checkpointed", ORANGE, **{**_FILLED, "marker": "s"}),
            _handle("MeZO", BLUE, **_FILLED),
            _handle("eager attention: filled", INK, **_FILLED),
            _handle("SDPA: open", INK, **_OPEN),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


def _six_panels(
    records: Sequence[Record],
    scope: str,
    base: Mapping[str, int],
    points: Sequence[Record],
    title: str,
) -> Figure:
    curves = _lines(records, scope)
    with style():
        figure, grid = plt.subplots(
            4, 3, figsize=(11, 8.6), sharex="col", height_ratios=(3, 1.1, 3, 1.1)
        )
        for number, (method, name) in enumerate(BP_LABELS.items()):
            panels, strips = grid[2 * number], grid[2 * number + 1]
            for panel, strip, axis in zip(panels, strips, SIZES, strict=True):
                here = [
                    record
                    for record in points
                    if all(record.point[other] == base[other] for other in SIZES if other != axis)
                    and record.point["method"] in (method, "mezo")
                    and "peak_bytes" in record.metrics
                ]
                if axis not in curves and not here:  # this axis was not run
                    panel.set_axis_off()
                    strip.set_axis_off()
                    continue
                _panel(panel, axis, curves.get(axis), method, here)
                _error_strip(strip, axis, here)
            panels[0].set_title(name, fontweight="bold")
            panels[0].set_ylabel("memory")
            strips[0].set_ylabel("formula /\nobserved")
        figure.suptitle(title, fontsize=10.5)
        kind = points[0].kind if points else "observed"
        handles = [
            _handle("BP, formula", ORANGE, linestyle="-"),
            _handle("MeZO, formula", BLUE, linestyle="-"),
            _handle(f"{kind}, eager attention", INK, **_FILLED),
            _handle(f"{kind}, SDPA", INK, **_OPEN),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _panel(
    panel: Axes,
    axis: str,
    curve: Mapping[str, Any] | None,
    method: str,
    points: Iterable[Record],
) -> None:
    panel.margins(x=0.05, y=0.08)
    if axis != "layers":
        panel.set_xscale("log", base=2)
    if curve is not None:
        panel.plot(curve["values"], curve[f"{method}_bytes"], color=ORANGE)
        panel.plot(curve["values"], curve["mezo_bytes"], color=BLUE)
        if axis != "layers":
            _label_powers_of_two(panel, curve["values"])
    _mark(panel, axis, points, lambda metrics: metrics["peak_bytes"])
    panel.set_yscale("log")
    bottom, top = panel.get_ylim()
    steps = (1, 2, 5) if top / bottom < 200 else (1,)
    panel.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda count, _: format_bytes(count)))
    panel.yaxis.set_minor_formatter(NullFormatter())


def _error_strip(strip: Axes, axis: str, points: Iterable[Record]) -> None:
    """Draw the formula's value over the observed peak; above 1 the formula overestimates."""
    _mark(strip, axis, points, lambda metrics: metrics["formula_bytes"] / metrics["peak_bytes"])
    strip.axhline(1, color=INK, linewidth=0.8)
    strip.set_yscale("log", base=2)
    bottom, top = strip.get_ylim()
    strip.set_ylim(min(bottom, 0.45), max(top, 2.2))
    strip.yaxis.set_major_locator(LogLocator(base=2 if top < 5 else 4))
    strip.yaxis.set_major_formatter("{x:g}")
    strip.set_xlabel(SIZES[axis])
    strip.tick_params(axis="x", labelbottom=True)  # panels of one axis share theirs


def _mark(
    panel: Axes,
    axis: str,
    records: Iterable[Record],
    height: Callable[[dict[str, Any]], float],
) -> None:
    """Draw a point for each record, filled for eager attention."""
    for record in records:
        colour, look = _COLOURS[record.point["method"]], _LOOKS[record.point["attention"]]
        panel.plot(record.point[axis], height(record.metrics), color=colour, zorder=3, **look)


def _handle(label: str, colour: Any, **style: Any) -> Line2D:  # noqa: ANN401 - matplotlib's own
    return Line2D([], [], color=colour, label=label, **style)


def _label_powers_of_two(panel: Axes, values: Sequence[int]) -> None:
    """Label the horizontal axis with powers of two over the range of ``values``, at most six."""
    first, last = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    panel.set_xticks([2**power for power in range(first, last + 1, -(-(last - first) // 5) or 1)])
    panel.xaxis.set_major_formatter("{x:g}")


def _lines(records: Sequence[Record], scope: str) -> dict[str, Mapping[str, Any]]:
    """Return the metrics of the analytic lines of a model, by axis."""
    return {
        record.point["axis"]: record.metrics
        for record in of_kind(records, "analytic")
        if record.point["scope"] == scope
    }
