"""Draw memory over N, L and D with simulated and measured points, and compare the formula."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from repro.artifacts.mezo_fig3.main_figure import AXES, BP_LABELS, fig3, label_powers_of_two
from repro.core.units import format_bytes
from repro.measurement.records import Record, of_kind
from repro.plotting.style import BLUE, INK, ORANGE, style

_COLOURS = {"bp": ORANGE, "bp_checkpoint": ORANGE, "mezo": BLUE, "forward": BLUE}
_FILLED: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "none"}
_OPEN: dict[str, Any] = {**_FILLED, "markersize": 7.5, "markerfacecolor": "none"}
"""Style of a ring, inside which a filled point at the same place stays visible."""
_LOOKS = {"eager": _FILLED, "sdpa": _OPEN}


def fig3_memory(records: Sequence[Record]) -> Figure:
    """Draw the paper's six panels of memory, with the simulated points."""
    config = records[0].config
    title = (
        f"Llama 2 with N = {config['context']}, L = {config['layers']}, D = {config['hidden']} "
        f"unless varied (b = {config['bytes_per_parameter']:g}, L' = {config['live_layers']:g})"
    )
    base = {axis: config[axis] for axis in AXES}
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
    title = (
        f"Llama models in {dtype} on {config['device']}, N = {base['context']}, "
        f"L = {base['layers']}, D = {base['hidden']} unless varied"
    )
    return _six_panels(records, "measured", base, points, title)


def predicted(records: Sequence[Record]) -> Figure:
    """Draw the formula's value over the observed peak of every simulated and measured point."""
    groups: dict[str, list[Record]] = {}
    for kind in ("simulated", "measured"):
        for record in of_kind(records, kind):
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
    curves = {
        record.point["axis"]: record.metrics
        for record in of_kind(records, "analytic")
        if record.point["scope"] == scope
    }
    with style():
        figure, grid = plt.subplots(
            4, 3, figsize=(11, 8.6), sharex="col", height_ratios=(3, 1.1, 3, 1.1)
        )
        for number, (method, name) in enumerate(BP_LABELS.items()):
            panels, strips = grid[2 * number], grid[2 * number + 1]
            for panel, strip, axis in zip(panels, strips, AXES, strict=True):
                here = [
                    record
                    for record in points
                    if all(record.point[other] == base[other] for other in AXES if other != axis)
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
            label_powers_of_two(panel, curve["values"])
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
    strip.set_xlabel(AXES[axis])
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


def figures() -> Mapping[str, Callable[[Sequence[Record]], Figure]]:
    """Return the function that draws each figure, by the figure's name."""
    return {
        "fig3": fig3,
        "fig3_memory": fig3_memory,
        "fig3_measured": fig3_measured,
        "predicted": predicted,
    }
