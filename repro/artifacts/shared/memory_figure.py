"""Draw the memory of training steps: the published bars, and every estimate of each step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from repro.artifacts.shared.memory_estimates import (
    ABOVE,
    ESTIMATES,
    PARTS,
    STEP,
    TOTAL,
    PartBytes,
    read,
)
from repro.claims.memory import describe
from repro.core.names import METHOD_LABELS
from repro.core.units import KIB, MIB, format_binary_bytes
from repro.measurement.records import Record
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

_LOOKS: dict[str, dict[str, Any]] = {
    PARTS["parameters"]: {"color": INK},
    PARTS["gradients"]: {"color": ORANGE},
    PARTS["activations"]: {"color": BLUE},
    PARTS["errors"]: {"color": PINK},
    PARTS["int32_buffers"]: {"color": GREEN},
    PARTS["input"]: {"color": "#b8b8b8"},
    PARTS["other"]: {"color": "#e3d9a6"},
    ABOVE: {"facecolor": "#dce6ef", "hatch": "////", "edgecolor": "#8aa4bd"},
}
"""Style of each part in every figure, in the order from the bottom up."""
_ROW_INCHES = 0.17

StepEstimates = dict[str, PartBytes]
"""The estimates of a step, by name."""


def figure(precision: str, records: Sequence[Record]) -> Figure:
    """Draw the formula's bars (left) and all estimates (right), with a row per batch size."""
    rows: dict[str, dict[str, StepEstimates]] = {}
    for (*step, name), row in read(records).items():
        point = dict(zip(STEP, step, strict=True))
        if point["precision"] == precision:
            rows.setdefault(describe(point), {}).setdefault(point["method"], {})[name] = row
    bars = max(sum(len(step) + 1 for step in steps.values()) for steps in rows.values())
    with style():
        figure, grid = plt.subplots(
            len(rows),
            2,
            figsize=(11, len(rows) * (bars * _ROW_INCHES + 0.6) + 0.4),
            width_ratios=(1, 1.45),
            squeeze=False,
        )
        shown: set[str] = set()
        for (left, right), (title, steps) in zip(grid, rows.items(), strict=True):
            left.set_title(f"{title}: formula, reconstructed")
            _published(left, {method: step["analytic"] for method, step in steps.items()})
            right.set_title(f"{title}: all estimates (ratio to the formula)")
            _every_estimate(right, steps)
            shown |= {
                part
                for step in steps.values()
                for row in step.values()
                for part, size in row.items()
                if size
            }
        handles = [Patch(label=part, **look) for part, look in _LOOKS.items() if part in shown]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _stack(
    bar: Callable[..., object], place: int, parts: Mapping[str, int], unit: int, width: float
) -> float:
    """Stack the parts with ``Axes.bar`` or ``Axes.barh``, and return the end of the stack."""
    end = 0.0
    for part, look in _LOOKS.items():
        size = parts[part] / unit
        bar(place, size, width, end, linewidth=0, **look)
        end += size
    return end


def _published(panel: Axes, rows: Mapping[str, PartBytes]) -> None:
    for place, row in enumerate(rows.values()):
        top = _stack(panel.bar, place, row, MIB, 0.62)
        panel.annotate(f"{top:.1f}", (place, top), ha="center", va="bottom", fontsize=8)
    names = {method: METHOD_LABELS[method].removeprefix("ZO-Feat-") for method in rows}
    panel.set_xticks(range(len(rows)), list(names.values()))
    panel.set_ylabel("MiB")
    panel.grid(visible=False, axis="x")
    panel.set_ylim(top=1.1 * panel.get_ylim()[1])
    elastic = [method for method in ("cls1", "cls2") if method in rows]
    if "full_zo" not in rows or not elastic:
        return
    # in the bars, the difference between ElasticZO and Full ZO is too small to be seen
    inset, least = panel.inset_axes((0.53, 0.62, 0.44, 0.28)), rows["full_zo"]
    for place, method in enumerate(elastic):
        extra = {part: size - least[part] for part, size in rows[method].items()}
        end = _stack(inset.barh, place, extra, KIB, 0.6)
        inset.annotate(f" {end:.1f} KiB", (end, place), ha="left", va="center", fontsize=7)
    inset.set_yticks(range(len(elastic)), [names[method] for method in elastic], fontsize=7)
    inset.set_xticks([])
    inset.set_xlim(right=1.6 * inset.get_xlim()[1])
    inset.set_ylim(len(elastic) - 0.4, -0.6)
    inset.set_title("more than Full ZO", fontsize=7.5, loc="center")
    inset.grid(visible=False)


def _every_estimate(panel: Axes, steps: Mapping[str, StepEstimates]) -> None:
    place, names = 0, {}
    for method, step in steps.items():
        panel.annotate(
            METHOD_LABELS[method], (0, place), (3, 0), textcoords="offset points", va="center",
            fontweight="bold", fontsize=8,
        )  # fmt: skip
        place += 1
        for name, row in step.items():
            end = _stack(panel.barh, place, row, MIB, 0.8)
            ratio = row[TOTAL] / step["analytic"][TOTAL]
            remark = f" {format_binary_bytes(row[TOTAL])}, {ratio:.2f} ×"  # noqa: RUF001
            panel.annotate(remark, (end, place), va="center", fontsize=7)
            names[place] = ESTIMATES[name].label
            place += 1
    panel.set_yticks(list(names), list(names.values()), fontsize=7)
    panel.set_ylim(place - 0.4, -0.6)
    panel.set_xlabel("MiB")
    panel.set_xlim(0, 1.27 * panel.get_xlim()[1])  # room for the remarks
    panel.grid(visible=False, axis="y")
