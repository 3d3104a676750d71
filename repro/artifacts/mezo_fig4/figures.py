"""Draw accuracy over time, forward passes and arithmetic, with memory."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import fmean
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from repro.artifacts.mezo_fig4.points import (
    GENERATED,
    ArmSeeds,
    TaskRuns,
    running_maximum,
    settings,
    short_name,
    value_at,
)
from repro.claims.index import CLAIMS
from repro.claims.statistics import SEEDS_FOR_AN_INTERVAL, estimate
from repro.core.units import format_bytes
from repro.finetuning.arms import LABELS
from repro.measurement.records import Record
from repro.plotting.style import (
    BLUE,
    BROWN,
    CYAN,
    GREEN,
    INK,
    ORANGE,
    PINK,
    RED,
    seed_counts,
    style,
)

_AXES = {
    "seconds": "training time (s)",
    "forward_passes": "forward passes (backward not counted)",
    "flops": "arithmetic (TFLOP)",
}
_COLOURS = {
    "bp": ORANGE,
    "bp_checkpoint": PINK,
    "lora": BROWN,
    "mezo_1": GREEN,
    "mezo_5": BLUE,
    "mezo_lora": CYAN,
    "elasticzo": RED,
}
_DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1.2)))
"""Line styles that distinguish the models of one arm."""
_PUBLISHED = {"MeZO": CLAIMS["A9"].published, "BP, below": CLAIMS["A9-bp"].published}
"""Accuracies (%) after about two hours in the paper's Fig. 4, of far larger models."""
_FINAL: Mapping[str, Any] = {"marker": "D", "markersize": 4}
"""Marker of a line's accuracy at the end, right of the panel."""
_SAME_SPEED = 1.25
"""Largest ratio of the seeds' ends for which a mean over them is drawn, as over training time."""
_LEVELS = 200
"""Number of points of the axis at which the seeds' accuracies are averaged."""


def fig4(records: Sequence[Record]) -> Figure:
    """Draw accuracy over time and forward passes, and memory.

    Every task is shown as its highest profile trained it; generated questions only if alone.
    """
    highest: dict[str, TaskRuns] = {}
    for setting in settings(records):
        highest.setdefault(setting.dataset, setting)
    shown = [one for one in highest.values() if one.dataset != GENERATED]
    return accuracy(shown or list(highest.values()), ("seconds", "forward_passes"))


def accuracy(tasks: Sequence[TaskRuns], axes: Sequence[str] = tuple(_AXES)) -> Figure:
    """Draw the tasks, one per row, and the memory of a step of each arm.

    Args:
        tasks: at least one task; the memory shown is that of the first.
        axes: fields of the curve to draw accuracy over, one per column.
    """
    with style():
        figure = plt.figure(figsize=(4.2 * len(axes) + 4, max(4.6, 3.1 * len(tasks) + 1.1)))
        cells = figure.add_gridspec(len(tasks), len(axes) + 1)
        looks, before = _looks(tasks), _zero_shot_looks(tasks)
        for row, setting in enumerate(tasks):
            panels = [figure.add_subplot(cells[row, column]) for column in range(len(axes))]
            for panel, axis in zip(panels, axes, strict=True):
                _curves(panel, setting, axis, looks, before)
                panel.set_xlabel(_AXES[axis])
                panel.sharey(panels[0])
            panels[0].set_ylabel("validation accuracy (%)")
            how = "no run came to an evaluation"
            if setting.lines:
                seeds = seed_counts(len(line.records) for line in setting.lines)
                items = setting.lines[0].records[0].metrics["items"]
                how = f"curves on {items['monitored']} items, {seeds}"
            panels[0].set_title(f"{setting.title}: {how}", loc="left")
            for name, value in _PUBLISHED.items() if setting.dataset == "boolq" else ():
                panels[0].axhline(value, color=INK, linestyle=(0, (6, 2, 1, 2)), linewidth=0.8)
                panels[0].annotate(
                    f"published after 2 h: {name} {value:g} %", (0.99, value), (0, 2),
                    xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
                    fontsize=7,
                )  # fmt: skip
            _set_limits(panels[0], setting)
        _memory(figure.add_subplot(cells[:, -1]), tasks[0])
        machines = dict.fromkeys(name for setting in tasks for name in setting.machines)
        made = dict.fromkeys(setting.made for setting in tasks)
        title = "\n".join(fill("; ".join(names), 120) for names in (made, machines))
        figure.suptitle(title, fontsize=10.5)
        handles: list[Any] = [Line2D([], [], label=name, **look) for name, look in looks.items()]
        handles.append(Line2D([], [], color=INK, linestyle=":", label="majority answer"))
        handles.append(Line2D([], [], color=INK, linewidth=0.6, alpha=0.6, label="running maximum"))
        handles += [
            Line2D([], [], linestyle="none", label=f"zero-shot, all items: {model}", **look)
            for model, look in _zero_shot_looks(tasks).items()
        ]
        lines = [line for setting in tasks for line in setting.lines]
        if any(line.final() for line in lines):
            label = "at the end, all items: mean"
            handles.append(Line2D([], [], linestyle="none", label=label, color=INK, **_FINAL))
        if any(len(line.records) >= SEEDS_FOR_AN_INTERVAL for line in lines):
            handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="95 % over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _looks(tasks: Sequence[TaskRuns]) -> Mapping[str, Mapping[str, Any]]:
    """Return the style of each line by its label: the arm's colour and the model's dashes."""
    lines = [line for setting in tasks for line in setting.lines]
    number = {model: n for n, model in enumerate(dict.fromkeys(line.model for line in lines))}
    return {
        line.label: {
            "color": _COLOURS[line.arm],
            "linestyle": _DASHES[number[line.model] % len(_DASHES)],
        }
        for line in lines
    }


def _zero_shot_looks(tasks: Sequence[TaskRuns]) -> Mapping[str, Mapping[str, Any]]:
    """Return the marker of each model's accuracy before training."""
    models = dict.fromkeys(r.point["model"] for setting in tasks for r in setting.zero_shot)
    return {
        short_name(model): {"marker": "<", "color": INK, "mfc": fill, "markersize": 6}
        for model, fill in zip(models, cycle((INK, "white", "grey")), strict=False)
    }


def _curves(
    panel: Axes,
    setting: TaskRuns,
    axis: str,
    looks: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, Mapping[str, Any]],
) -> None:
    for line in setting.lines:
        _mean(panel, line, axis, looks[line.label])
        if ends := line.final():
            panel.plot(
                1.03, fmean(ends.values()), color=looks[line.label]["color"], clip_on=False,
                transform=panel.get_yaxis_transform(), **_FINAL,
            )  # fmt: skip
    majority = setting.majority("monitored")
    if majority is not None:
        panel.axhline(majority, color=INK, linestyle=":", linewidth=1)
    for record in setting.zero_shot:
        panel.plot(
            1, 100 * record.metrics["accuracy"], clip_on=False,
            transform=panel.get_yaxis_transform(),
            **before[short_name(record.point["model"])],
        )  # fmt: skip
    if axis == "flops":
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e12:g}"))
        panel.xaxis.set_major_locator(MaxNLocator(4))


def _set_limits(panel: Axes, setting: TaskRuns) -> None:
    """Show every point and published value; an interval over few seeds may exceed the panel."""
    raw = [100 * a for line in setting.lines for r in line.records for a in r.metrics["accuracy"]]
    alike = setting.majority("monitored")
    raw += [] if alike is None else [alike]
    raw += [100 * record.metrics["accuracy"] for record in setting.zero_shot]
    raw += [fmean(ends.values()) for line in setting.lines if (ends := line.final())]
    raw += _PUBLISHED.values() if setting.dataset == "boolq" else []
    if raw:
        margin = 0.08 * (max(raw) - min(raw)) or 1.0
        panel.set_ylim(min(raw) - margin, max(raw) + margin)


def _mean(panel: Axes, line: ArmSeeds, axis: str, look: Mapping[str, Any]) -> None:
    """Draw the mean accuracy over seeds, its 95 % interval and the running maximum.

    Lines end where the first seed ends. A mark shows this end, the last evaluation, which verdicts
    use. Seeds of machines of different speed have no mean over time: each is drawn to its own end.
    """
    raw = [
        list(zip(r.metrics[axis], [100 * a for a in r.metrics["accuracy"]], strict=True))
        for r in line.records
    ]
    ends = [points[-1][0] for points in raw]
    if max(ends) > _SAME_SPEED * min(ends):
        for points in raw:
            panel.plot(*np.transpose(points), linewidth=1.0, **look)
            panel.plot(*points[-1], "o", color=look["color"], markersize=4)
        return
    end = min(ends)
    places = np.linspace(0, end, _LEVELS)
    heights = np.array([np.interp(places, *np.transpose(points)) for points in raw])
    panel.plot(places, heights.mean(0), linewidth=1.6, **look)
    panel.plot(end, heights.mean(0)[-1], "o", color=look["color"], markersize=4)
    best = [
        np.mean([value_at(running_maximum(record, axis), x) for record in line.records])
        for x in places
    ]
    panel.plot(places, best, linewidth=0.6, alpha=0.6, drawstyle="steps-post", **look)
    if len(raw) < SEEDS_FOR_AN_INTERVAL:
        for height in heights if len(raw) > 1 else ():
            panel.plot(places, height, linewidth=0.8, alpha=0.35, **look)
        return
    half = np.array([estimate(list(column)).interval for column in heights.T])
    mean = heights.mean(0)
    panel.fill_between(
        places, mean - half, mean + half, color=look["color"], alpha=0.15, linewidth=0
    )


def _memory(panel: Axes, setting: TaskRuns) -> None:
    """Draw the memory of a step of each set-up: measured as bars, estimates as marks on them."""
    sizes = {(plan.point["batch"], plan.point["context"]) for plan in setting.plans}
    names = []
    for place, plan in enumerate(setting.plans):
        metrics, point = plan.metrics, plan.point
        measured = metrics.get("measured_peak_bytes", 0)
        panel.barh(place, measured, 0.5, color=_COLOURS[point["arm"]], alpha=0.75, linewidth=0)
        panel.plot(metrics["simulated_peak_bytes"], place, "|", color=INK, markersize=11)
        if "formula_bytes" in metrics:
            panel.plot(metrics["formula_bytes"], place, "D", color=INK, markersize=4, mfc="white")
        if "budget_bytes" in metrics:  # runs of one profile can have different budgets
            panel.vlines(metrics["budget_bytes"], place - 0.25, place + 0.45, INK, linewidth=1.5)
        model = short_name(point["model"])
        said = format_bytes(measured) if measured else "out of memory"
        size = "" if len(sizes) == 1 else f", {_size(point['batch'], point['context'])}"
        panel.annotate(
            f"{model}{size}: {said}", (0, place - 0.28), (2, 1),
            textcoords="offset points", va="bottom", fontsize=7,
        )  # fmt: skip
        names.append(LABELS[point["arm"]].replace(", ", ",\n").replace(" with ", " with\n"))
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set_ylim(len(names) - 0.5, -0.7)
    panel.grid(visible=False, axis="y")
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_bytes(count)))
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.set_xlabel("memory of a step; line: budget,\n| simulated, ◇ planned by formula")
    common = "".join(f", {_size(*size)}" for size in sizes) if len(sizes) == 1 else ""
    panel.set_title(f"measured peak, {setting.name}{common}")


def _size(batch: int, context: int) -> str:
    return f"B = {batch}, N = {context}"
