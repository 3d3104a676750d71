"""Accuracy over time, forward passes and arithmetic, memory beside it; and the learning rates."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from repro.artifacts.mezo_fig4.points import Line, Setting, running_maximum, settings, value_at
from repro.claims.index import CLAIMS
from repro.claims.statistics import estimate
from repro.core.units import format_bytes
from repro.finetuning.arms import ARMS, LABELS, estimates
from repro.measurement.records import Record
from repro.plotting.style import BLUE, GREEN, INK, ORANGE, PINK, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {"boolq": "BoolQ", "boolq-qa": "BoolQ, question and answer", "rte": "RTE"} | {
    "sst2": "SST-2",
    "yesno-facts": "generated questions",
}
_AXES = {
    "seconds": "training time (s)",
    "forward_passes": "forward passes (backward not counted)",
    "flops": "arithmetic (TFLOP)",
}
_COLOURS = {"bp": ORANGE, "bp_checkpoint": PINK, "mezo_1": GREEN, "mezo_5": BLUE}
_DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1.2)))
"""Models of one arm are told apart by them."""
_PUBLISHED = {"MeZO": CLAIMS["A9"].published, "BP, below": CLAIMS["A9-bp"].published}
"""Accuracies (%) after about two hours in the paper's Fig. 4, of far larger models."""
_LEVELS = 200
"""Places at which the seeds' running maxima are averaged."""


def fig4(records: Sequence[Record]) -> "Figure":
    """Draw the setting of the highest profile."""
    return accuracy(settings(records)[0])


def learning_rates(records: Sequence[Record]) -> "Figure":
    """Draw the grids of every setting: loss on the held-out questions over the learning rate."""
    with_grids = [setting for setting in settings(records) if setting.grids]
    with style():
        rows = max(1, len(with_grids))
        figure, grid = plt.subplots(rows, 2, figsize=(8.4, 3.1 * rows), squeeze=False)
        for (left, right), setting in zip(grid, with_grids, strict=False):
            _grid(left, setting, zo=False)
            _grid(right, setting, zo=True)
    return figure


FIGURES: Mapping[str, Callable[[Sequence[Record]], "Figure"]] = {
    "fig4": fig4,
    "learning_rates": learning_rates,
}


def accuracy(setting: Setting) -> "Figure":
    """Draw one setting: running maxima and raw points on three axes, and the memory of each arm."""
    with style():
        figure, grid = plt.subplots(
            1, 4, figsize=(13, 3.9), width_ratios=(1.25, 1, 1, 1), squeeze=False
        )
        *panels, bars = grid[0]
        looks = _looks(setting)
        for panel, (axis, name) in zip(panels, _AXES.items(), strict=True):
            _curves(panel, setting, axis, looks)
            panel.set_xlabel(name)
            panel.sharey(panels[0])
        panels[0].set_ylabel("validation accuracy (%)")
        if setting.dataset == "boolq":
            _published(panels[0])
        _set_limits(panels[0], setting)
        _memory(bars, setting)
        figure.suptitle(
            f"{_title(setting.dataset)}, {setting.name} ({setting.profile}): {_how(setting)}",
            fontsize=10.5,
        )
        handles: list[Any] = [
            Line2D([], [], label=f"{line.label} ({_run(line)})", **looks[line.label])
            for line in setting.lines
        ]
        handles.append(Line2D([], [], color=INK, linestyle=":", label="majority answer"))
        handles.append(_raw_handle())
        if any(len(line.records) > 1 for line in setting.lines):
            handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="95 % over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _looks(setting: Setting) -> Mapping[str, Mapping[str, Any]]:
    """Return the look of each line, by its label."""
    models = dict.fromkeys(line.model for line in setting.lines)
    number = {model: n for n, model in enumerate(models)}
    return {
        line.label: {
            "color": _COLOURS[line.arm],
            "linestyle": _DASHES[number[line.model] % len(_DASHES)],
        }
        for line in setting.lines
    }


def _how(setting: Setting) -> str:
    if not setting.lines:
        return "no run came to an evaluation"
    items = setting.lines[0].settings["monitored_items"]
    return f"{items} questions, {'; '.join(setting.machines)}"


def _run(line: Line) -> str:
    seeds = len(line.records)
    return f"lr {line.settings['lr']:g}, {seeds} seed{'s' if seeds > 1 else ''}"


def _raw_handle() -> Line2D:
    return Line2D(
        [], [], color=INK, marker="o", markersize=3, alpha=0.5, linestyle="none",
        label="each evaluation; lines: running maximum",
    )  # fmt: skip


def _curves(
    panel: "Axes", setting: Setting, axis: str, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    for line in setting.lines:
        look = looks[line.label]
        for record in line.records:
            panel.plot(
                record.metrics[axis],
                [100 * value for value in record.metrics["accuracy"]],
                color=look["color"],
                marker="o",
                markersize=3,
                alpha=0.5,
                linestyle="none",
            )
        _mean(panel, line, axis, look)
    majority = setting.majority("monitored")
    if majority is not None:
        panel.axhline(majority, color=INK, linestyle=":", linewidth=1)
    if axis == "flops":
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e12:g}"))
        panel.xaxis.set_major_locator(MaxNLocator(4))


def _published(panel: "Axes") -> None:
    for name, accuracy in _PUBLISHED.items():
        panel.axhline(accuracy, color=INK, linestyle=(0, (6, 2, 1, 2)), linewidth=0.8)
        panel.annotate(
            f"published after 2 h: {name} {accuracy:g} %", (0.99, accuracy), (0, 2),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
            fontsize=7,
        )  # fmt: skip


def _set_limits(panel: "Axes", setting: Setting) -> None:
    """Show every point and published value; an interval over few seeds may reach beyond."""
    raw = [100 * a for line in setting.lines for r in line.records for a in r.metrics["accuracy"]]
    alike = setting.majority("monitored")
    raw += [] if alike is None else [alike]
    raw += _PUBLISHED.values() if setting.dataset == "boolq" else []
    if raw:
        margin = 0.08 * (max(raw) - min(raw)) or 1.0
        panel.set_ylim(min(raw) - margin, max(raw) + margin)


def _mean(panel: "Axes", line: Line, axis: str, look: Mapping[str, Any]) -> None:
    """Draw the mean running maximum as far as every seed goes, and its 95 % interval."""
    curves = [running_maximum(record, axis) for record in line.records]
    places = np.linspace(0, min(curve[-1][0] for curve in curves), _LEVELS)
    means = [estimate([value_at(curve, x) for curve in curves]) for x in places]
    height = np.array([mean.mean for mean in means])
    panel.plot(places, height, linewidth=1.6, drawstyle="steps-post", **look)
    if len(curves) > 1:
        half = np.array([mean.interval or 0.0 for mean in means])
        panel.fill_between(
            places, height - half, height + half, step="post", color=look["color"], alpha=0.2,
            linewidth=0,
        )  # fmt: skip


def _memory(panel: "Axes", setting: Setting) -> None:
    """Draw what a step of each set-up takes: measured as bars, the rest as marks on them."""
    names = []
    for place, plan in enumerate(setting.plans):
        metrics, arm = plan.metrics, plan.point["arm"]
        measured = metrics.get("measured_peak_bytes", 0)
        panel.barh(place, measured, 0.5, color=_COLOURS[arm], alpha=0.75, linewidth=0)
        panel.plot(metrics["simulated_peak_bytes"], place, "|", color=INK, markersize=15)
        panel.plot(metrics["planned_bytes"], place, "D", color=INK, markersize=4, mfc="white")
        said = format_bytes(measured) if measured else "out of memory"
        panel.annotate(
            f"{said}, L' = {metrics.get('measured_effective_layers', float('nan')):.2g}",
            (0, place - 0.31), (2, 1), textcoords="offset points", va="bottom", fontsize=7,
        )  # fmt: skip
        model = plan.point["model"].rpartition("/")[2]
        names.append(
            f"{LABELS[arm]}\n{model}\nB = {plan.point['batch']}, N = {plan.point['context']}"
        )
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set_ylim(len(names) - 0.5, -0.7)
    panel.grid(visible=False, axis="y")
    for plan in setting.plans:
        if "budget_bytes" in plan.metrics:
            panel.axvline(plan.metrics["budget_bytes"], color=INK, linewidth=1)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_bytes(count)))
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.set_xlabel("memory of a step; line: budget,\n| simulated, ◇ formula (real parameters)")
    panel.set_title("measured peak")


def _grid(panel: "Axes", setting: Setting, *, zo: bool) -> None:
    for arm in (arm for arm in ARMS if bool(estimates(arm)) == zo):
        here = [r for r in setting.grids if r.point["arm"] == arm and r.metrics.get("loss")]
        for model in dict.fromkeys(record.point["model"] for record in here):
            of_model = sorted(
                (record for record in here if record.point["model"] == model),
                key=lambda record: float(record.point["lr"]),
            )
            panel.plot(
                [record.point["lr"] for record in of_model],
                [record.metrics["loss"][-1] for record in of_model],
                marker="o",
                markersize=4,
                color=_COLOURS[arm],
                label=f"{LABELS[arm]}, {model.rpartition('/')[2]}",
            )
    panel.set_xscale("log")
    panel.set_xlabel("learning rate")
    panel.set_ylabel("held-out cross-entropy (nats)")
    panel.set_title(f"{_title(setting.dataset)}, {setting.name} ({setting.profile})")
    panel.legend()


def _title(task: str) -> str:
    """Return a task's title as the literature has it; of a user's own, the name of its file."""
    return _TITLES.get(task, Path(task).stem)
