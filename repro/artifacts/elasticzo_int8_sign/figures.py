"""Shares of right signs over training."""

from collections.abc import Sequence
from statistics import fmean

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from repro.artifacts.elasticzo_int8_sign.shares import RULES, by_epoch, runs
from repro.claims.elasticzo import DATASETS, METHODS
from repro.drawing.style import INK, style
from repro.measurement.records import Record

_PUBLISHED = 95
_DASHES = ("-", "--", "-.", ":")


def signs(records: Sequence[Record]) -> Figure:
    """Draw a row for each data set and a column for each method, mean over seeds by epoch."""
    found = runs(records)
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))
    profiles = ", ".join(sorted({record.profile for record in records}))
    with style():
        figure, grid = plt.subplots(
            len(datasets),
            len(methods),
            figsize=(3.3 * len(methods), 2.5 * len(datasets) + 0.5),
            squeeze=False,
            sharex=True,
            sharey=True,
        )
        for (dataset, method), here in found.items():
            panel = grid[datasets.index(dataset), methods.index(method)]
            for rule, colour, dashes in zip(
                RULES, sns.color_palette("colorblind"), _DASHES, strict=False
            ):
                mean = [fmean(v) for v in zip(*(by_epoch(r, rule) for r in here), strict=True)]
                panel.plot(
                    range(1, len(mean) + 1), mean, color=colour, ls=dashes, label=RULES[rule]
                )
            panel.axhline(_PUBLISHED, color=INK, lw=0.8, label="published: integer = float")
            panel.set_title(f"{DATASETS[dataset]}, {METHODS[method]} ({profiles})")
            panel.set_ylim(0, 101)
        for panel in grid[-1]:
            panel.set_xlabel("epoch")
        for panel in grid[:, 0]:
            panel.set_ylabel("share of steps (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


FIGURES = {"signs": signs}
