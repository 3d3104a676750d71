"""Shares of right signs over training."""

from collections.abc import Sequence
from statistics import fmean

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from repro.artifacts.elasticzo_int8_sign.shares import RULES, by_epoch, cells
from repro.claims.elasticzo import DATASETS, METHODS
from repro.drawing.remarks import title
from repro.drawing.style import INK, style
from repro.measurement.records import Record

_PUBLISHED = 95
_DASHES = ("-", "--", "-.", ":")


def signs(records: Sequence[Record]) -> Figure:
    """Draw a row for each data set and a column for each method, mean over seeds by epoch.

    It ends where the first seed does.
    """
    found = cells(records)
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))
    with style():
        figure, grid = plt.subplots(
            len(datasets),
            len(methods),
            figsize=(3.3 * len(methods), 2.5 * len(datasets) + 0.5),
            squeeze=False,
            sharex=True,
            sharey=True,
        )
        for (dataset, method), cell in found.items():
            panel = grid[datasets.index(dataset), methods.index(method)]
            for rule, colour, dashes in zip(
                RULES, sns.color_palette("colorblind"), _DASHES, strict=False
            ):
                seeds = [by_epoch(record, rule) for record in cell.records]
                mean = [fmean(shares) for shares in zip(*seeds, strict=False)]
                panel.plot(
                    range(1, len(mean) + 1), mean, color=colour, ls=dashes, label=RULES[rule]
                )
            panel.axhline(_PUBLISHED, color=INK, lw=0.8, label="published: integer = float")
            name = title(f"{DATASETS[dataset]}, {METHODS[method]}", {cell.profile})
            panel.set_title(f"{name}\n{cell.caveat}".rstrip())
            panel.set_ylim(0, 101)
        for panel in grid[-1]:
            panel.set_xlabel("epoch")
        for panel in grid[:, 0]:
            panel.set_ylabel("share of steps (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


FIGURES = {"signs": signs}
CAPTIONS = {
    "signs": "Share of steps at which the rules agree, by epoch, for each data set and method",
}
