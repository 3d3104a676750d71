"""Loss curves of several methods by epoch: mean over seeds, and their range."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from repro.core.names import METHOD_LABELS
from repro.drawing.style import BLUE, GREEN, INK, ORANGE, PINK, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: dict[str, dict[str, Any]] = {
    METHOD_LABELS["full_zo"]: {"color": BLUE, "linestyle": "solid"},
    METHOD_LABELS["cls2"]: {"color": GREEN, "linestyle": (0, (5, 1.5))},
    METHOD_LABELS["cls1"]: {"color": PINK, "linestyle": (0, (3, 1.2, 1, 1.2))},
    METHOD_LABELS["full_bp"]: {"color": ORANGE, "linestyle": (0, (1, 1.2))},
}
"""A method has the same line whichever are drawn; dashes tell them apart where colours cannot."""
_LOG_FROM = 10
"""Ratio of the largest to the smallest loss from which a logarithmic axis shows more."""

Losses = Mapping[str, Sequence[Sequence[float]]]
"""By method the loss in nats of each seed: before training and after each epoch."""


def curves(panels: Mapping[str, Mapping[str, Losses]], *, profile: str = "paper") -> "Figure":
    """Draw a column for each data set and a row for each kind of loss.

    The mean of a method ends where its first seed does: one that diverged is not left out of it.

    Args:
        panels: for each data set the kinds of loss, as in ``train`` and ``test``, the same for
            all; in each the losses of methods, by their names of ``METHOD_LABELS``.
        profile: of the records; any but ``paper`` is named in the titles.
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
            sharey="col",
            squeeze=False,
        )
        for axes, (dataset, by_kind) in zip(grid.T, panels.items(), strict=True):
            for panel, kind in zip(axes, kinds, strict=True):
                for method, seeds in by_kind[kind].items():
                    _curve(panel, seeds, _LINES[method])
                panel.set_title(
                    f"{dataset}, {kind}" + ("" if profile == "paper" else f" ({profile})")
                )
            _loss_axis(axes[0], [loss for losses in by_kind.values() for loss in losses.values()])
            axes[-1].set_xlabel("epoch")
            axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        for panel in grid[:, 0]:
            panel.set_ylabel("cross-entropy (nats)")
        handles: list[Any] = [
            Line2D([], [], label=method, **line)
            for method, line in _LINES.items()
            if method in drawn
        ]
        if any(panel.collections for panel in grid.flat):
            handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="range over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _curve(panel: "Axes", seeds: Sequence[Sequence[float]], line: Mapping[str, Any]) -> None:
    epochs = range(min(len(curve) for curve in seeds))
    values = np.array([curve[: len(epochs)] for curve in seeds])  # [seeds, epochs + 1]
    panel.plot(epochs, values.mean(axis=0), linewidth=1.4, **line)
    if len(seeds) == 1:
        return
    panel.fill_between(
        epochs, values.min(axis=0), values.max(axis=0), color=line["color"], alpha=0.2, linewidth=0
    )


def _loss_axis(panel: "Axes", losses: Sequence[Sequence[Sequence[float]]]) -> None:
    """Choose a logarithmic axis where the losses, of all panels that share it, span much."""
    values = [loss for seeds in losses for curve in seeds for loss in curve]
    if min(values) > 0 and max(values) / min(values) >= _LOG_FROM:
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
