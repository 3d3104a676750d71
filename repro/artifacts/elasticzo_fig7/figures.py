"""Times of an epoch by phase, and their shares."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from repro.artifacts.elasticzo_fig7.times import ENGINE_LABELS, PRECISION_LABELS, Times
from repro.claims.execution_time import PHASES, SHARES, SPEED_UPS, Point
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
"""Of the published range, to be seen on every phase."""

Bar = tuple[list[float], str]
"""Lengths in the order of ``PHASES``, and the text at the end of the bar."""
Ends = Mapping[str, tuple[float, float]]
"""By precision, the range in which the paper has the end of the first phase."""


def fig7(records: Sequence[Record]) -> Figure:
    """Draw the seconds of an epoch: a row for each batch size, a column for each engine."""
    times = Times(records)

    def bar(engine: str, point: Point) -> Bar:
        remark = f"{times.seconds(engine, point):.3g} s"
        slow = {**point, "precision": "fp32"}
        if point["precision"] == "int8" and times.has(engine, [slow]):
            remark += f", {times.ratio(engine, slow, point):.2f} ×"  # noqa: RUF001
        return [times.seconds(engine, point, (phase,)) for phase in PHASES], remark

    (images,) = times.images
    low, high = SPEED_UPS.values()
    said = f"INT8: FP32 over INT8, published {low} to {high} ×"  # noqa: RUF001
    return _draw(times, bar, f"seconds of {images:,} images\n({said})", {})


def shares(records: Sequence[Record]) -> Figure:
    """Draw the same in per cent of each epoch, with the published share of forward passes."""
    times = Times(records)

    def bar(engine: str, point: Point) -> Bar:
        lengths = [times.share(engine, point, (phase,)) for phase in PHASES]
        return lengths, f"{lengths[0]:.1f} %"

    published: dict[str, tuple[float, float]] = {
        share.precision: share.ends for share in SHARES if share.phases == ("forward",)
    }
    return _draw(times, bar, "per cent of the epoch (number: Forward)", published)


def _draw(times: Times, bar: Callable[[str, Point], Bar], unit: str, published: Ends) -> Figure:
    """Draw a panel for each batch size and engine; ``unit`` labels the axis."""
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
            figsize=(5.2 * columns, rows * (0.24 * bars + 0.7) + 0.4),
            squeeze=False,
        )
        for panel, ((batch, engine), of) in zip(grid.flat, groups.items(), strict=True):
            _panel(panel, of, published)
            panel.set_title(f"{ENGINE_LABELS[engine]}, B = {batch}")
            panel.set_xlabel(unit)
        handles: list[Any] = [Patch(label=PHASES[p], color=c) for p, c in _COLOURS.items()]
        if published:
            handles.append(Patch(label="end of Forward, as published", **_MARK))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _panel(panel: Axes, groups: Mapping[str, Mapping[str, Bar]], published: Ends) -> None:
    place, names, longest = 0, {}, 0.0
    for precision, bars in groups.items():
        panel.annotate(
            PRECISION_LABELS[precision], (0, place), (3, 0), textcoords="offset points",
            va="center", fontweight="bold", fontsize=8,
        )  # fmt: skip
        place += 1
        for method, (lengths, remark) in bars.items():
            left = 0.0
            for length, colour in zip(lengths, _COLOURS.values(), strict=True):
                panel.barh(place, length, 0.78, left=left, color=colour, linewidth=0)
                left += length
            if precision in published:
                low, high = published[precision]
                panel.barh(place, high - low, 1, left=low, zorder=3, **_MARK)
            panel.annotate(f" {remark}", (left, place), va="center", fontsize=7.5)
            names[place] = method
            longest = max(longest, left)
            place += 1
    panel.set_yticks(list(names), list(names.values()))
    panel.set_ylim(place - 0.4, -0.6)
    panel.set_xticks([tick for tick in panel.get_xticks() if tick <= 1.001 * longest])
    panel.set_xlim(0, 1.28 * longest)  # room for the remarks
    panel.grid(visible=False, axis="y")


def figures() -> Mapping[str, Callable[[Sequence[Record]], Figure]]:
    """Return the functions that draw, by the name of the figure."""
    return {"fig7": fig7, "shares": shares}
