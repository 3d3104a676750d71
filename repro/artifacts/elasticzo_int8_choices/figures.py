"""Accuracy by epoch by each answer, and how many weights meet a clip."""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from repro.artifacts.elasticzo_int8_choices.effects import Effect, curve, effects
from repro.artifacts.elasticzo_int8_choices.restores import restored, shares
from repro.claims.elasticzo import DATASETS, METHODS
from repro.claims.trained import Cell
from repro.drawing.remarks import title
from repro.drawing.style import BLUE, GREEN, ORANGE, PINK, label_logarithms, style
from repro.measurement.records import Record

_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."))
_COLOURS = {"full_zo": BLUE, "cls1": PINK}
_DASHES = {"clip": "-", "exact": "--"}


def accuracy(records: Sequence[Record]) -> Figure:
    """Draw a row for each data set and choice, a panel for each method: mean over the seeds.

    Each seed is a thin line where there are several. Every panel has a scale of its own.
    """
    rows = [
        [list(of_method) for _, of_method in groupby(of_choice, _method)]
        for _, of_choice in groupby(effects(records), _dataset_and_choice)
    ]
    across = max(len(row) for row in rows)
    with style():
        figure, grid = plt.subplots(
            len(rows), across, figsize=(3.2 * across, 2.2 * len(rows)), squeeze=False
        )
        for axes, row in zip(grid, rows, strict=True):
            for panel, alike in zip(axes, row, strict=False):
                _answers_panel(panel, alike)
            for unused in axes[len(row) :]:
                unused.set_axis_off()
            axes[0].set_ylabel("test accuracy (%)")
    return figure


def restores(records: Sequence[Record]) -> Figure:
    """Draw a panel for each data set: the share of weights that met a clip, by epoch."""
    found = {
        dataset: list(arms)
        for dataset, arms in groupby(restored(records), lambda arm: _dataset(arm[1]))
    }
    with style():
        figure, panels = plt.subplots(
            1, len(found), figsize=(4.6 * len(found), 3.2), squeeze=False, sharey=True
        )
        for panel, (dataset, arms) in zip(panels.flat, found.items(), strict=True):
            _clips_panel(panel, arms)
            panel.set_title(title(dataset, {cell.profile for _, cell in arms}))
        panels[0, 0].set_ylabel("perturbed weights that met a clip (%)")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _clips_panel(panel: Axes, arms: Sequence[tuple[str, Cell]]) -> None:
    for answer, cell in arms:
        method = str(cell.point["method"])
        line = {"color": _COLOURS[method], "ls": _DASHES[answer]}
        _plot(panel, shares(cell), label=f"{METHODS[method]}, {answer}", **line)
    panel.set(xlabel="epoch", yscale="log")
    lowest, highest = panel.get_ylim()
    label_logarithms(panel.yaxis, highest / lowest)


def _answers_panel(panel: Axes, alike: Sequence[Effect]) -> None:
    """Draw the default and all other answers of one method to one choice."""
    first = alike[0]
    arms = [(f"{first.choice.default} (default)", first.default)]
    arms += [(effect.answer, effect.other) for effect in alike]
    for (answer, cell), (colour, dashes) in zip(arms, _LINES, strict=False):
        label = ", ".join(filter(None, (answer, cell.caveat)))
        seeds = [curve(record) for record in cell.records]
        mean = [fmean(values) for values in zip(*seeds, strict=False)]
        _plot(panel, mean, color=colour, ls=dashes, label=label)
        for seed in seeds if len(seeds) > 1 else ():
            _plot(panel, seed, color=colour, ls=dashes, lw=0.6, alpha=0.5)
    name = f"{_dataset(first.default)}, {METHODS[_method(first)]}\n{first.choice.name}"
    panel.set_title(title(name, {cell.profile for _, cell in arms}))
    panel.set_xlabel("epoch")
    panel.legend(loc="lower right")


def _plot(panel: Axes, values: Sequence[float], **line: object) -> None:
    panel.plot(range(1, len(values) + 1), values, marker=".", markersize=3, **line)  # type: ignore[arg-type]
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _dataset(cell: Cell) -> str:
    return DATASETS[str(cell.point["dataset"])]


def _method(effect: Effect) -> str:
    return str(effect.default.point["method"])


def _dataset_and_choice(effect: Effect) -> tuple[str, str]:
    return _dataset(effect.default), effect.choice.name


FIGURES = {"accuracy": accuracy, "restores": restores}
CAPTIONS = {
    "accuracy": (
        "Test accuracy by epoch by each answer, a row for each choice and a panel for each method"
    ),
    "restores": "Share of perturbed weights that met a clip, by epoch, for each restore and method",
}
