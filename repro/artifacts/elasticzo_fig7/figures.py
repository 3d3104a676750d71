"""Draw the seconds of an epoch by phase, and each phase's share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from repro.artifacts.elasticzo_fig7.times import ENGINE_LABELS, PRECISION_LABELS, Times
from repro.claims.execution_time import PHASES, SHARES, SPEED_UPS
from repro.claims.quantity import Point
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

_COLOURS = dict(zip(PHASES, (BLUE, PINK, ORANGE, GREEN, INK, "#c4c4c4"), strict=True))
_MARK: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": "white",
    "linewidth": 0.8,
    "path_effects": [withStroke(linewidth=2.2, foreground="black")],
}
"""Style of the published range; visible on the colour of every phase."""

Bar = tuple[list[float], str, tuple[float, float] | None]
"""Lengths of the phases of ``PHASES``, the text at the end, and a published range to mark."""


def fig7(records: Sequence[Record]) -> Figure:
    """Draw the seconds of an epoch; mark where INT8 would end at the published speed-up."""
    times = Times(records)

    def bar(engine: str, point: Point) -> Bar:
        remark = f"{times.seconds(engine, point):.3g} s"
        slow = {**point, "precision": "fp32"}
        phases = [times.seconds(engine, point, (phase,)) for phase in PHASES]
        if point["precision"] == "fp32" or not times.has(engine, [slow]):
            return phases, remark, None
        remark += f": {times.ratio(engine, slow, point):.2f} × as fast"  # noqa: RUF001
        in_fp32 = times.seconds(engine, slow)
        return phases, remark, (in_fp32 / float(high), in_fp32 / float(low))

    (images,) = times.images
    low, high = SPEED_UPS.values()
    mark = f"end of INT8's bar at the published speed-up ({low} to {high} ×)"  # noqa: RUF001
    return _draw(times, bar, f"seconds for {images:,} images", mark)


def shares(records: Sequence[Record]) -> Figure:
    """Draw each phase in per cent of its epoch, with the published share of forward passes."""
    times = Times(records)

    def bar(engine: str, point: Point) -> Bar:
        lengths = [times.share(engine, point, (phase,)) for phase in PHASES]
        return lengths, f"{lengths[0]:.1f} %", published[str(point["precision"])]

    published: dict[str, tuple[float, float]] = {
        share.precision: share.ends for share in SHARES if share.phases == ("forward",)
    }
    unit = "per cent of the epoch (number: Forward)"
    return _draw(times, bar, unit, "end of Forward in the paper")


def _draw(times: Times, bar: Callable[[str, Point], Bar], unit: str, mark: str) -> Figure:
    """Draw a row for each batch size and a column for each engine; columns share their axis.

    Args:
        times: the records' times.
        bar: makes the bar of an engine and a point.
        unit: unit of the bars' lengths.
        mark: label of the marked ranges.
    """
    groups = {
        (batch, engine): {
            precision: {
                METHOD_LABELS[str(point["method"])]: bar(engine, point)
                for point in times.of_batch(batch, precision)
                if times.has(engine, [point])
            }
            for precision in PRECISION_LABELS
        }
        for batch in times.batches
        for engine in times.engines
    }
    bars = max(sum(len(group) + 1 for group in of.values()) for of in groups.values())
    rows, columns = len(times.batches), len(times.engines)
    with style():
        figure, grid = plt.subplots(
            rows,
            columns,
            figsize=(4.6 * columns + 0.8, rows * (0.24 * bars + 0.5) + 0.6),
            squeeze=False,
            sharex="col",
        )
        for panel, ((batch, engine), of) in zip(grid.flat, groups.items(), strict=True):
            _panel(panel, of)
            panel.set_title(f"{ENGINE_LABELS[engine]}, B = {batch}")
        for axes in grid.T:
            longest = max(panel.dataLim.x1 for panel in axes)
            axes[0].set_xlim(0, 1.45 * longest)  # room for the remarks
            axes[0].set_xticks([tick for tick in axes[0].get_xticks() if tick <= 1.001 * longest])
            axes[-1].set_xlabel(unit)
        handles: list[Any] = [Patch(label=PHASES[p], color=c) for p, c in _COLOURS.items()]
        handles.append(Patch(label=mark, **_MARK))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _panel(panel: Axes, groups: Mapping[str, Mapping[str, Bar]]) -> None:
    place, names = 0, {}
    for precision, bars in groups.items():
        panel.annotate(
            PRECISION_LABELS[precision], (0, place), (3, 0), textcoords="offset points",
            va="center", fontweight="bold", fontsize=8,
        )  # fmt: skip
        place += 1
        for method, (lengths, remark, marked) in bars.items():
            left = 0.0
            for length, colour in zip(lengths, _COLOURS.values(), strict=True):
                panel.barh(place, length, 0.78, left=left, color=colour, linewidth=0)
                left += length
            if marked:
                low, high = marked
                panel.barh(place, high - low, 1, left=low, zorder=3, **_MARK)
                left = max(left, high)
            panel.annotate(f"  {remark}", (left, place), va="center", fontsize=7.5)
            names[place] = method
            place += 1
    panel.set_yticks(list(names), list(names.values()))
    panel.set_ylim(place - 0.4, -0.6)
    panel.grid(visible=False, axis="y")
