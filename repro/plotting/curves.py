"""Draw loss curves of several methods by epoch: mean over seeds, and range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from repro.core.names import METHOD_LABELS
from repro.plotting.style import INK, METHOD_COLOURS, PAPER, label_logarithms, remark, style, title

LINES: dict[str, dict[str, Any]] = {
    METHOD_LABELS["full_zo"]: {"color": METHOD_COLOURS["full_zo"], "linestyle": "solid"},
    METHOD_LABELS["cls2"]: {"color": METHOD_COLOURS["cls2"], "linestyle": (0, (5, 1.5))},
    METHOD_LABELS["cls1"]: {"color": METHOD_COLOURS["cls1"], "linestyle": (0, (3, 1.2, 1, 1.2))},
    METHOD_LABELS["full_bp"]: {"color": METHOD_COLOURS["full_bp"], "linestyle": (0, (1, 1.2))},
}
"""The line of each method, the same in every figure; dashes help readers without colour vision."""
_LOG_FROM = 10
"""Ratio of the largest to the smallest loss above which the axis is logarithmic."""


@dataclass(frozen=True)
class LossCurve:
    """Loss of one method by epoch."""

    seeds: Sequence[Sequence[float]]
    """The losses of each seed in nats, before training and after each epoch."""
    profile: str = PAPER
    """Profile of the records."""
    caveat: str = ""
    """A limit of the mean over seeds, as in ``1 of 3 diverged``."""


Losses = Mapping[str, LossCurve]
"""The curve of each method, by its name in ``METHOD_LABELS``."""


def curves(panels: Mapping[str, Mapping[str, Losses]]) -> Figure:
    """Draw a column for each data set and a row for each kind of loss, each on its own scale.

    The mean of a method ends where its first seed ends, so diverged seeds are included. A profile
    other than the published one is named in the panel's title, or in the panel's legend if it has
    several profiles. The legend also gives the number of diverged seeds.

    Args:
        panels: for each data set, the curves of the methods by kind of loss, such as ``train`` and
            ``test``; all data sets have the same kinds.
    """
    kinds = list(next(iter(panels.values())))
    drawn = {
        method for by_kind in panels.values() for losses in by_kind.values() for method in losses
    }
    with style():
        figure, grid = plt.subplots(
            len(kinds),
            len(panels),
            figsize=(4.6 * len(panels), 2.5 * len(kinds) + 0.4),
            sharex="col",
            squeeze=False,
        )
        for axes, (dataset, by_kind) in zip(grid.T, panels.items(), strict=True):
            for panel, kind in zip(axes, kinds, strict=True):
                _panel(panel, f"{dataset}, {kind}", by_kind[kind])
            axes[-1].set_xlabel("epoch")
            axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        for panel in grid[:, 0]:
            panel.set_ylabel("cross-entropy (nats)")
        handles: list[Any] = [
            Line2D([], [], label=method, **line)
            for method, line in LINES.items()
            if method in drawn
        ]
        # only ranges are collections, and only several seeds have one
        if any(panel.collections for panel in grid.flat):
            handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="range over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def plot_range(panel: Axes, seeds: Sequence[Sequence[float]], **line: Any) -> None:  # noqa: ANN401 - matplotlib's own
    """Draw the mean over seeds by epoch and, for several seeds, their range.

    The line ends where the first seed ends.
    """
    values = np.array([*zip(*seeds, strict=False)]).T  # [seeds, epochs + 1]
    if len(values):
        panel.plot(range(values.shape[1]), values.mean(axis=0), **line)
    if len(values) > 1:
        ends, colour = (values.min(axis=0), values.max(axis=0)), line["color"]
        panel.fill_between(range(values.shape[1]), *ends, color=colour, alpha=0.2, linewidth=0)


def _panel(panel: Axes, name: str, losses: Losses) -> None:
    profiles = {curve.profile for curve in losses.values()}
    panel.set_title(title(name, profiles))
    remarks = []
    for method, curve in losses.items():
        plot_range(panel, curve.seeds, linewidth=1.4, **LINES[method])
        if said := remark(curve.profile, curve.caveat, profiles):
            remarks.append(Line2D([], [], label=f"{method}: {said}", **LINES[method]))
    if remarks:
        panel.legend(handles=remarks, loc="best")
    every = [loss for curve in losses.values() for seed in curve.seeds for loss in seed]
    if every and min(every) > 0 and max(every) / min(every) >= _LOG_FROM:
        panel.set_yscale("log")
        label_logarithms(panel.yaxis, max(every) / min(every))
