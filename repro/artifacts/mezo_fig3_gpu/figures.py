"""Draw peak memory over N, L and D: equation, simulated step, measured step."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from repro.artifacts.shared.savings import SIZES
from repro.core.units import GB
from repro.measurement.records import Record, of_kind
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, style

_COLOURS = {"bp": ORANGE, "bp_checkpoint": GREEN, "mezo": BLUE}
_LABELS = {"bp": "BP", "bp_checkpoint": "BP, checkpointed", "mezo": "MeZO"}
_MANY = 64
"""Ratio of the largest to the smallest size above which labels at powers of two would overlap."""
_OPEN: dict[str, Any] = {"marker": "o", "ms": 7, "mfc": "none"}
_FILLED: dict[str, Any] = {"marker": "o", "ms": 3.5}
_DRAWN = ("equation_bytes", "peak_bytes")
_DECADES = 200
"""Ratio of the largest to the smallest height below which 1, 2 and 5 of a decade are labelled."""
_LARGER = {"bp": 4.0}
"""Points added to a method's marks, so that they show around another's at the same place."""


def memory(records: Sequence[Record]) -> Figure:
    """Draw a row for each attention kernel and a column for each size that varies."""
    config = records[0].config
    attentions = config["attentions"]
    with style():
        figure, grid = plt.subplots(
            len(attentions),
            len(SIZES),
            figsize=(11, 3.1 * len(attentions) + 0.6),
            sharex="col",
            squeeze=False,
        )
        for row, attention in zip(grid, attentions, strict=True):
            for panel, size in zip(row, SIZES, strict=True):
                others = [name for name in SIZES if name != size]
                here = [
                    record
                    for record in records
                    if record.kind in ("measured", "simulated")
                    and record.point["attention"] == attention
                    and all(record.point[name] == config[name] for name in others)
                ]
                _panel(panel, here, size)
            kernel = "SDPA" if attention == "sdpa" else "eager attention"
            row[0].set_ylabel(f"peak memory (GB)\n{kernel}")
        for panel, name in zip(grid[-1], SIZES.values(), strict=True):
            panel.set_xlabel(name)
        handles = [
            *(Line2D([], [], color=_COLOURS[m], label=_LABELS[m]) for m in _COLOURS),
            Line2D([], [], color=INK, lw=1, label="equations (2) and (3): line"),
            Line2D([], [], color=INK, ls="none", marker="o", mfc="none", label="simulated step"),
            Line2D([], [], color=INK, ls="none", marker="o", ms=3, label="measured step"),
            Line2D([], [], color=INK, ls="none", marker="x", label="out of memory"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _panel(panel: Axes, records: Sequence[Record], size: str) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    sizes = [record.point[size] for record in records]
    many = max(sizes, default=1) > _MANY * min(sizes, default=1)
    panel.xaxis.set_major_locator(LogLocator(base=4 if many else 2))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    heights = [r.metrics[name] for r in records for name in r.metrics if name in _DRAWN]
    if max(heights, default=1) < _DECADES * min(heights, default=1):
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:,.10g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    for method, colour in _COLOURS.items():
        mine = [record for record in records if record.point["method"] == method]
        line = {
            r.point[size]: r.metrics["equation_bytes"]
            for r in mine
            if "equation_bytes" in r.metrics
        }
        panel.plot(sorted(line), [line[x] / GB for x in sorted(line)], color=colour, lw=1)
        for kind, look in (("simulated", _OPEN), ("measured", _FILLED)):
            marker = look | {"ms": look["ms"] + _LARGER.get(method, 0)}
            points = {
                r.point[size]: r.metrics["peak_bytes"]
                for r in of_kind(mine, kind)
                if "peak_bytes" in r.metrics
            }
            panel.plot(
                list(points), [y / GB for y in points.values()], color=colour, ls="none", **marker
            )
        short = [r for r in of_kind(mine, "measured") if r.metrics.get("out_of_memory")]
        panel.plot(
            [r.point[size] for r in short],
            [r.metrics["equation_bytes"] / GB for r in short],
            color=colour,
            marker="x",
            ls="none",
        )
