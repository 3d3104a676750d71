"""Draw accuracies by each value of each suspected cause, and on other rotated images."""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.artifacts.elasticzo_discrepancies import evaluated
from repro.artifacts.elasticzo_discrepancies.causes import BATCH
from repro.artifacts.elasticzo_discrepancies.evaluated import NetworkScores, comparisons
from repro.artifacts.shared.columns import headings
from repro.artifacts.shared.comparisons import AxisComparison
from repro.artifacts.shared.scores import score
from repro.claims.elasticzo import DATASETS, ROW_LABELS
from repro.claims.quantity import key
from repro.measurement.records import Record
from repro.plotting.accuracy import Columns, Score, dots
from repro.plotting.style import BROWN, CYAN, INK, NEUTRAL, RED, notice, style, title

_LABELS = {**ROW_LABELS, "none": "untuned"}
_MARKERS = "osD^v"
_OFFSETS = (-0.3, -0.15, 0.0, 0.15, 0.3)
_VIEWS: dict[str, dict[str, Any]] = {
    "ours": {"color": INK, "marker": "o", "ms": 5},
    "first 1,024": {"color": RED, "marker": "s", "ms": 5},
    "all 10,000": {"color": NEUTRAL, "marker": "D", "ms": 4},
    "clockwise": {"color": CYAN, "marker": "^", "ms": 4},
    "nearest pixel": {"color": BROWN, "marker": "v", "ms": 4},
}
_SAID = {
    "ours": "1,024 drawn at random (ours)",
    "first 1,024": "the first 1,024",
    "all 10,000": "all 10,000",
    "clockwise": "ours, turned clockwise",
    "nearest pixel": "ours, nearest pixel",
}
_NO_RECORDS = "no records of this experiment"


def integer_tuning(records: Sequence[Record]) -> Figure:
    """Draw a panel for each cell of Table 2 in INT8 for which all causes were changed."""
    found = _of(comparisons(records), "int8", tuned=True)
    several = [
        one for one in found if sum(other.row == one.row for other in found) > 1
    ]  # in the other rows only the batch size was changed
    return _causes(several)


def batch(records: Sequence[Record]) -> Figure:
    """Draw every row of Table 2 in INT8 at its own batch size and at the sizes in ``BATCH``."""
    columns: dict[tuple[str, ...], list[Score]] = {}
    for one in _of(comparisons(records), "int8", tuned=True):
        if one.axis.setting == "batch":
            scores = columns.setdefault(headings(one.row), [])
            method = ROW_LABELS[str(one.row["method"])]
            kept = [
                variant
                for variant in one.variants
                if variant.is_base or variant.value in BATCH.values
            ]
            scores += [
                score(f"{method}, B = {variant.label}", one.published, variant.group)
                for variant in reversed(kept)
            ]
    return _dots(columns, per_row=2)


def float_tuning(records: Sequence[Record]) -> Figure:
    """Draw a panel for each cell of Table 2 in FP32 for which the causes were changed."""
    return _causes(_of(comparisons(records), "fp32", tuned=True))


def integer_training(records: Sequence[Record]) -> Figure:
    """Draw the cell of Table 1 in INT8* for which the causes were changed."""
    return _causes(_of(comparisons(records), "int8_star", tuned=False))


def point_clouds(records: Sequence[Record]) -> Figure:
    """Draw a panel for each method of PointNet, in float32.

    The runs are far shorter than those of Table 1, so the published accuracies are left out.
    """
    found = _of(comparisons(records), "fp32", tuned=False)
    return _causes(found, per_row=2, with_published=False)


def test_images(records: Sequence[Record]) -> Figure:
    """Draw the difference to Table 2 of each network on each set of rotated images.

    Networks fine-tuned with another batch size than the table's are in the notebook's table only.
    """
    every = evaluated.rows(records)
    # the smallest of each row unless the records tell the table's
    own = {key(row.row): row.batch for row in every} | evaluated.batches_of_table(records)
    found = [row for row in every if row.batch in (None, own[key(row.row)])]
    if not found:
        return notice(_NO_RECORDS)
    profile = next(r.profile for r in reversed(records) if r.kind == "evaluation")
    panels: dict[str, list[NetworkScores]] = {}
    for row in found:
        dataset, _, precision = headings(row.row)
        panels.setdefault(title(f"{dataset}, {precision}", {profile}), []).append(row)
    columns = min(2, len(panels))
    lines = [list(panels.items())[n : n + columns] for n in range(0, len(panels), columns)]
    heights = [max(len(rows) for _, rows in line) for line in lines]
    with style():
        figure, grid = plt.subplots(
            len(lines),
            columns,
            figsize=(4.6 * columns, 0.42 * sum(heights) + 0.6 * len(lines) + 0.6),
            height_ratios=[height + 0.5 for height in heights],
            squeeze=False,
            sharex=True,
        )
        for axes, line in zip(grid, lines, strict=True):
            for panel, (name, rows) in zip(axes, line, strict=False):
                _differences(panel, rows)
                panel.set_title(name)
        for panel in grid[-1]:
            panel.set_xlabel("accuracy minus published (points)")
        views = dict.fromkeys(name for row in found for name in row.scores)
        handles = [Line2D([], [], ls="none", label=_SAID[name], **_VIEWS[name]) for name in views]
        handles.append(Line2D([], [], color=INK, lw=1.2, label="published"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _differences(panel: Axes, rows: Sequence[NetworkScores]) -> None:
    """Draw a line for each network: our accuracy on each set of images minus the published one."""
    panel.axvline(0, color=INK, lw=1.2)
    for place, row in enumerate(rows):
        for (name, ours), offset in zip(row.scores.items(), _OFFSETS, strict=False):
            panel.errorbar(
                ours.mean - row.published, place + offset, xerr=ours.interval,
                elinewidth=0.8, ls="none", **_VIEWS[name],
            )  # fmt: skip
        if place:
            panel.axhline(place - 0.5, color="#dddddd", lw=0.6)
    names = [f"{_LABELS[str(row.row['method'])]}, {row.row['angle']}°" for row in rows]
    panel.set_yticks(range(len(rows)), names)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.grid(visible=False, axis="y")


def pre_training(records: Sequence[Record]) -> Figure:
    """Draw accuracy at 45 over accuracy at 30 degrees, by rate and batch size of pre-training.

    The upper row shows our images of Table 2, the lower one the first images of the test split.
    Lines join each mean to its seeds; intervals would hide each other.
    """
    found = list(evaluated.settings(records))
    datasets = list(dict.fromkeys(one.dataset for one in found))
    if not found:
        return notice(_NO_RECORDS)
    profile = next(r.profile for r in reversed(records) if r.kind == "evaluation")
    rates = sorted({one.rate for one in found})
    colours = dict(zip(rates, sns.color_palette("colorblind"), strict=False))
    markers = dict(zip(sorted({one.batch for one in found}), _MARKERS, strict=False))
    with style():
        figure, panels = plt.subplots(
            2, len(datasets), figsize=(4.4 * len(datasets), 6.6), squeeze=False
        )
        for column, dataset in enumerate(datasets):
            of_set = [one for one in found if one.dataset == dataset]
            for panel, what in zip(panels[:, column], _IMAGES, strict=True):
                for one in of_set:
                    at_30, at_45 = one.scores[what]
                    colour = colours[one.rate]
                    panel.plot(
                        at_30.mean, at_45.mean, color=colour, marker=markers[one.batch], ls="none"
                    )
                    for seed_30, seed_45 in zip(at_30.seeds, at_45.seeds, strict=True):
                        ends = [at_30.mean, seed_30], [at_45.mean, seed_45]
                        panel.plot(*ends, color=colour, **_SEED)
                panel.plot(*of_set[0].published, zorder=5, **_CROSS)
                panel.set(xlabel="accuracy at 30° (%)", ylabel="accuracy at 45° (%)")
                name = f"{DATASETS[dataset]}, {_IMAGES[what]}"
                panel.set_title(title(name, {profile}))
        handles = [Line2D([], [], color=c, label=f"rate {r:g}") for r, c in colours.items()]
        handles += [
            Line2D([], [], color=INK, ls="none", marker=m, label=f"batch {b}")
            for b, m in markers.items()
        ]
        handles.append(Line2D([], [], color=INK, label="one seed, with its mean", **_SEED))
        handles.append(Line2D([], [], label="published", **_CROSS))
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


_IMAGES = {"drawn": "images of our Table 2", "first": "the first 1,024 images"}
_SEED: dict[str, Any] = {"marker": ".", "markersize": 4, "linewidth": 0.7, "alpha": 0.7}
_CROSS: dict[str, Any] = {"color": INK, "ls": "none", "marker": "X", "markersize": 10}


def _of(found: Iterable[AxisComparison], precision: str, *, tuned: bool) -> list[AxisComparison]:
    return [
        one for one in found if one.row["precision"] == precision and ("angle" in one.row) == tuned
    ]


def _causes(
    found: Iterable[AxisComparison], per_row: int = 3, *, with_published: bool = True
) -> Figure:
    """Draw a panel for each cell of a table: first the table's own setting, then each cause."""
    columns: dict[tuple[str, ...], list[Score]] = {}
    for one in found:
        dataset, *rotation, precision = headings(one.row)
        table = f"Table {2 if rotation else 1}, {precision}\n{dataset}"
        published = one.published if with_published else None
        scores = columns.setdefault((table, *rotation, ROW_LABELS[str(one.row["method"])]), [])
        if not scores:
            own = next(variant for variant in one.variants if variant.is_base)
            scores.append(score("the table's setting", published, own.group))
        scores += [
            score(f"{one.axis.name} {variant.label}", published, variant.group)
            for variant in one.variants
            if not variant.is_base
        ]
    return _dots(columns, per_row=per_row)


def _dots(columns: Columns, per_row: int) -> Figure:
    return dots(columns, per_row=min(per_row, len(columns))) if columns else notice(_NO_RECORDS)
