"""Held-out accuracy over the grid."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.artifacts.elasticzo_search.selection import Group, best, grids
from repro.claims.elasticzo import METHODS
from repro.drawing.style import style
from repro.measurement.records import Record

_MARKERS = "osD^v"
_PALETTE = sns.color_palette("colorblind")
_COLOURS = dict(zip(("full_zo", "cls2", "cls1", "full_bp"), _PALETTE, strict=False))
_STYLES = ("-", "--", ":", "-.")


def grid(records: Sequence[Record]) -> Figure:
    """Draw a panel for each family of problems and precision; rings mark what was chosen."""
    columns = list(dict.fromkeys(group[:2] for group in grids(records)))
    with style():
        across = min(len(columns), 3)
        down = -(-len(columns) // across)
        figure, panels = plt.subplots(
            down, across, figsize=(3.6 * across + 1.2, 2.9 * down), squeeze=False
        )
        for panel, column in zip(panels.flat, columns, strict=False):
            _panel(panel, records, column)
        for panel in panels.flat[len(columns) :]:
            panel.set_axis_off()
        handles, labels = _legend(list(panels.flat)[: len(columns)])
        figure.legend(handles, labels, loc="outside right upper")
    return figure


def _panel(panel: Axes, records: Sequence[Record], column: tuple[str, str]) -> None:
    chosen = best(records)
    found = {group: points for group, points in grids(records).items() if group[:2] == column}
    variants = sorted({_variant(dict(p)) for points in found.values() for p in points})
    for group, points in found.items():
        for variant in variants:
            line = sorted(
                (_abscissa(dict(p)), 100 * value)
                for p, value in points.items()
                if _variant(dict(p)) == variant
            )
            if line:
                panel.plot(
                    *zip(*line, strict=True),
                    marker=_MARKERS[variants.index(variant)],
                    color=_COLOURS[group[2]],
                    linestyle=_STYLES[variants.index(variant)],
                    label=_label(group, variant),
                )
        best_point = tuple(chosen[group].items())
        panel.plot(
            _abscissa(chosen[group]), 100 * points[best_point], "o", ms=12, mfc="none", mec="k"
        )
    integer = column[1] != "fp32"
    panel.set(
        xscale="log",
        xlabel="$r_{max}$" if integer else "learning rate",
        ylabel="held-out accuracy (%)",
        title=f"{column[0].replace('_', ' ')}, {column[1]}",
    )
    ticks = sorted({_abscissa(dict(p)) for points in found.values() for p in points})
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=40, ha="right")
    panel.minorticks_off()


def _abscissa(point: dict[str, float]) -> float:
    return point["r_max"] if "r_max" in point else point["lr"]


def _variant(point: dict[str, float]) -> float:
    """Return g_clip, or 0 where there is none to choose."""
    return point.get("clip", 0.0)


def _label(group: Group, variant: float) -> str:
    name = METHODS[group[2]]
    return f"{name}, $g_{{clip}}$ = {variant:g}" if variant and group[2] != "full_bp" else name


def _legend(panels: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """Return every series once, in the order of the methods."""
    series: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            series.setdefault(label, handle)
    order = sorted(series, key=lambda label: [not label.startswith(n) for n in METHODS.values()])
    return [series[label] for label in order], order


FIGURES = {"grid": grid}
