"""Accuracies by each value of each suspected cause, and on other rotated images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.artifacts.elasticzo_misses import evaluated
from repro.artifacts.elasticzo_misses.causes import BATCH
from repro.artifacts.elasticzo_misses.evaluated import comparisons
from repro.artifacts.shared.comparisons import Comparison, Variant
from repro.artifacts.shared.scores import headings
from repro.claims.elasticzo import DATASETS, METHODS
from repro.measurement.records import Record
from repro.plotting.accuracy import Columns, Score, dots
from repro.plotting.remarks import title
from repro.plotting.style import INK, style

_METHODS = {**METHODS, "none": "untuned"}
_MARKERS = "osD^v"


def integer_tuning(records: Sequence[Record]) -> Figure:
    """Draw a panel for each cell of Table 2 in INT8 of which all causes were changed."""
    found = _of(comparisons(records), "int8", tuned=True)
    several = [
        one for one in found if sum(other.row == one.row for other in found) > 1
    ]  # else the batch alone was changed
    return _causes(several)


def batch(records: Sequence[Record]) -> Figure:
    """Draw every row of Table 2 in INT8 by its own batch and by those of ``BATCH``."""
    columns: dict[tuple[str, ...], list[Score]] = {}
    for one in _of(comparisons(records), "int8", tuned=True):
        if one.axis.setting == "batch":
            scores = columns.setdefault(headings(one.row), [])
            method = METHODS[str(one.row["method"])]
            kept = [
                variant
                for variant in one.variants
                if variant.is_base or variant.value in BATCH.values
            ]
            scores += [
                _score(f"{method}, B = {variant.label}", variant, one.published)
                for variant in reversed(kept)
            ]
    return _dots(columns, per_row=2)


def float_tuning(records: Sequence[Record]) -> Figure:
    """Draw a panel for each cell of Table 2 in FP32 of which the causes were changed."""
    return _causes(_of(comparisons(records), "fp32", tuned=True))


def integer_training(records: Sequence[Record]) -> Figure:
    """Draw the cell of Table 1 in INT8* of which the causes were changed."""
    return _causes(_of(comparisons(records), "int8s", tuned=False))


def test_images(records: Sequence[Record]) -> Figure:
    """Draw a panel for each cell of Table 2, its networks on each kind of rotated images."""
    columns: dict[tuple[str, ...], list[Score]] = {}
    profile = next((r.profile for r in reversed(records) if r.kind == "evaluation"), "")
    for row in evaluated.rows(records):
        column = columns.setdefault((*headings(row.row), _METHODS[str(row.row["method"])]), [])
        batch = f", B = {row.batch}" if row.row["precision"] == "int8" and row.batch else ""
        column += [
            Score(name + batch, row.published, score.mean, score.interval, profile=profile)
            for name, score in row.scores.items()
        ]
    return _dots(columns, per_row=4)


def pre_training(records: Sequence[Record]) -> Figure:
    """Draw accuracy at 45 over that at 30 degrees for each rate and batch of pre-training.

    A row for the images of Table 2 here and one for the first ones of the test split; means, each
    with lines to its seeds, whose intervals would hide each other.
    """
    found = list(evaluated.settings(records))
    datasets = list(dict.fromkeys(one.dataset for one in found))
    if not found:
        return _nothing()
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


def _of(found: Iterable[Comparison], precision: str, *, tuned: bool) -> list[Comparison]:
    return [
        one for one in found if one.row["precision"] == precision and ("angle" in one.row) == tuned
    ]


def _causes(found: Iterable[Comparison]) -> Figure:
    """Draw a panel for each cell of a table: with the setting there, then by each cause."""
    columns: dict[tuple[str, ...], list[Score]] = {}
    for one in found:
        dataset, *rotation, precision = headings(one.row)
        table = f"Table {2 if rotation else 1}, {precision}\n{dataset}"
        scores = columns.setdefault((table, *rotation, METHODS[str(one.row["method"])]), [])
        if not scores:
            own = next(variant for variant in one.variants if variant.is_base)
            scores.append(_score("the table's setting", own, one.published))
        scores += [
            _score(f"{one.axis.name} {variant.label}", variant, one.published)
            for variant in one.variants
            if not variant.is_base
        ]
    return _dots(columns, per_row=3)


def _score(name: str, variant: Variant, published: float) -> Score:
    last, cell = variant.last, variant.cell
    return Score(
        name, published, last.mean, last.interval, variant.best.mean, cell.profile, cell.caveat
    )


def _dots(columns: Columns, per_row: int) -> Figure:
    return dots(columns, per_row=min(per_row, len(columns))) if columns else _nothing()


def _nothing() -> Figure:
    with style():
        figure, panel = plt.subplots(figsize=(4, 0.6))
        panel.set_axis_off()
        panel.text(0, 0.5, "no records of this experiment")
    return figure


def figures() -> Mapping[str, Callable[[Sequence[Record]], Figure]]:
    """Return the functions that draw, by the name of the figure."""
    return {
        "integer_tuning": integer_tuning,
        "batch": batch,
        "test_images": test_images,
        "pre_training": pre_training,
        "float_tuning": float_tuning,
        "integer_training": integer_training,
    }
