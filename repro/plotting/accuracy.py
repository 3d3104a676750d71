"""Compare our accuracies of several methods with the published ones, as dots and as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.plotting.style import INK, NEUTRAL, PAPER, remark, style, title

_LAST: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linestyle": "none"}
_BEST: dict[str, Any] = {**_LAST, "markersize": 9, "markerfacecolor": "none"}
_PUBLISHED: dict[str, Any] = {
    "color": INK,
    "marker": "|",
    "markersize": 17,
    "markeredgewidth": 1.8,
    "linestyle": "none",
}


@dataclass(frozen=True)
class Score:
    """Test accuracies of one method, in per cent; ``None`` if there is none."""

    method: str
    """Its name in the figure."""
    published: float | None
    last: float | None = None
    """Our accuracy after the last epoch, mean over seeds."""
    interval: float | None = None
    """Half-width of the 95 % prediction interval around ``last``."""
    best: float | None = None
    """Our accuracy after the best epoch, mean over seeds."""
    profile: str | None = None
    """Profile of our records."""
    seeds: Sequence[float] = ()
    """Our accuracy after the last epoch with each seed."""
    caveat: str = ""
    """A limit of our mean, as in ``1 of 3 diverged``."""
    colour: Any = NEUTRAL
    """Colour of its marks."""


Columns = Mapping[tuple[str, ...], Sequence[Score]]
"""The methods' scores in each column of a table, by the column's headings: data set, precision."""
_WIDE = 10.0
"""Half-width in points of the widest prediction interval that a table shows."""
_LEAST_WIDTH = 5.0  # inches; fits the title of a single panel next to the methods' names


def dots(scores: Columns, *, per_row: int = 3) -> Figure:
    """Draw a panel for each column, the methods from top to bottom.

    A profile other than the published one is named in the panel's title, or next to the method if
    the panel has several profiles. The number of diverged seeds is shown next to the method.
    """
    rows = -(-len(scores) // per_row)
    tallest = max(len(column) for column in scores.values())
    with style():
        figure, grid = plt.subplots(
            rows,
            per_row,
            figsize=(max(3.7 * per_row, _LEAST_WIDTH), rows * (0.75 + 0.27 * tallest) + 0.5),
            squeeze=False,
        )
        panels = grid.flat
        for headings, column in scores.items():
            _panel(next(panels), headings, column)
        for unused in panels:
            unused.set_axis_off()
        every = [score for column in scores.values() for score in column]
        with_best = any(score.best is not None for score in every)
        last = "ours, last epoch" if with_best else "ours"
        if any(score.interval is not None for score in every):
            last += f"{',' if with_best else ''} with 95 % prediction interval"
        handles = [Line2D([], [], color=NEUTRAL, label=last, **_LAST)]
        if with_best:
            handles.append(Line2D([], [], color=NEUTRAL, label="ours, best epoch", **_BEST))
        if any(score.published is not None for score in every):
            handles.append(Line2D([], [], label="published", **{**_PUBLISHED, "markersize": 11}))
        figure.legend(handles=handles, loc="outside lower center", ncols=3 if per_row > 1 else 1)
    return figure


def table(scores: Columns) -> pd.DataFrame:
    """Return methods by columns: ``ours last (best) ± interval | published | difference``.

    An interval wider than ``_WIDE`` may leave 0 to 100 %; each seed's accuracy stands in its place.

    A profile other than the published one and diverged seeds are noted after our value.
    """
    methods = dict.fromkeys(score.method for column in scores.values() for score in column)
    frame = pd.DataFrame(index=list(methods), columns=pd.MultiIndex.from_tuples(scores), data="")
    for headings, column in scores.items():
        for score in column:
            frame.loc[score.method, headings] = _text(score)
    return frame


def _panel(panel: Axes, headings: Sequence[str], column: Sequence[Score]) -> None:
    profiles = {score.profile for score in column if score.profile is not None}
    panel.set_title(title(", ".join(headings), profiles))
    for height, score in enumerate(column):
        if score.published is not None:
            panel.plot(score.published, height, zorder=3, **_PUBLISHED)
        if score.best is not None:
            panel.plot(score.best, height, zorder=4, color=score.colour, **_BEST)
        if score.last is not None:
            panel.errorbar(
                score.last,
                height,
                xerr=score.interval,
                capsize=2.5,
                elinewidth=1.2,
                zorder=5,
                color=score.colour,
                **_LAST,
            )
    names = []
    for score in column:
        said = score.profile and remark(score.profile, score.caveat, profiles)
        names.append(f"{score.method}\n({said})" if said else score.method)
    panel.set_yticks(range(len(column)), names)
    panel.set_ylim(len(column) - 0.5, -0.5)
    panel.margins(x=0.08)
    left, right = panel.get_xlim()
    panel.set_xlim(max(left, 0), min(right, 101))  # an interval may exceed 0 to 100
    panel.set_xlabel("test accuracy (%)")


def _text(score: Score) -> str:
    ours = "–"  # noqa: RUF001
    if score.last is not None:
        ours = f"{score.last:.2f}"
        ours += "" if score.best is None else f" ({score.best:.2f})"
        if score.interval is not None and score.interval > _WIDE and score.seeds:
            ours += f"; by seed {', '.join(f'{seed:.1f}' for seed in score.seeds)}"
        elif score.interval is not None:
            ours += f" ± {score.interval:.2f}"
        ours += "" if score.profile == PAPER else f" (profile {score.profile})"
    ours += f" ({score.caveat})" if score.caveat else ""
    parts = [ours]
    if score.published is not None:
        parts.append(f"{score.published:.2f}")
        if score.last is not None:
            parts.append(f"{score.last - score.published:+.2f}")
    return " | ".join(parts)
