"""Collect our accuracies and the published ones of a table's cells, for figures and tables."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from repro.artifacts.shared.columns import headings, place, published
from repro.claims.elasticzo import ROW_LABELS
from repro.claims.quantity import Point, key
from repro.claims.trained import SeedGroup, SeedGroups, prediction, seeds_text
from repro.measurement.records import Record
from repro.plotting import accuracy
from repro.plotting.accuracy import Columns, Score
from repro.plotting.style import METHOD_COLOURS


def columns(records: Sequence[Record]) -> Columns:
    """Return the scores of every column that has records, in the order of the table."""
    groups, printed = SeedGroups(records), published()
    found: dict[tuple[str, ...], list[Score]] = {}
    for column in _columns(groups):
        rows = found[_heading(column, groups)] = []
        for method, name in ROW_LABELS.items():
            point = {**column, "method": method}
            group, paper = groups.get(point), printed.get(key(point))
            if group is not None:
                rows.append(score(name, paper, group))
            elif paper is not None:
                rows.append(Score(name, paper))
    return found


def _heading(column: Point, groups: SeedGroups) -> tuple[str, ...]:
    """Return the headings of a column, on clouds with the number of epochs."""
    name, *rest = headings(column)
    cells = (groups.get({**column, "method": method}) for method in ROW_LABELS)
    lengths = sorted({group.length for group in cells if group and "points" in group.settings})
    if lengths:
        name = f"{name}, {' to '.join(map(str, lengths))} epochs"
    return name, *rest


def figure(records: Sequence[Record]) -> Figure:
    """Draw each column of the table: ours and published, method by method."""
    return accuracy.dots(columns(records))


def table(records: Sequence[Record]) -> pd.DataFrame:
    """Return our accuracy, the published one and their difference, methods by columns."""
    return accuracy.table(columns(records))


def runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return how the groups of each column were trained, and which of their seeds count.

    Epochs are the finished ones. Hyperparameters are shown only where they are used. Three columns
    are hidden if they say nothing: the engine if it is always PyTorch, the data set if it is always
    the column's own form, and the augmentation if there is none.
    """
    groups = SeedGroups(records)
    rows = {}
    for column in _columns(groups):
        for method in ROW_LABELS:
            point = {**column, "method": method}
            group = groups.get(point)
            if group is None or method == "none":
                continue
            name = ", ".join((*headings(column), ROW_LABELS[method]))
            rows[name] = _row(group)
            for other in groups.others(point):
                rows[f"{name} ({other.unlike(group)})"] = _row(other)
    table = pd.DataFrame(list(rows.values()), index=list(rows))
    table = table.rename(columns={"train_items": "training items, at most"})
    usual = {"engine": {"torch"}, "data set": {""}, "augmentation": {""}}
    hidden = [name for name, values in usual.items() if set(table.get(name, ())) <= values]
    return table.drop(columns=hidden, errors="ignore")


_SHOWN = ("train_items", "points", "batch", "lr")
_OF_PERTURBATION = ("clip", "eps", "r_max")


def _row(group: SeedGroup) -> dict[str, Any]:
    used = {
        name: value
        for name, value in group.settings.items()
        if name not in _OF_PERTURBATION or group.point["method"] != "full_bp"
    }
    problem = str(group.settings.get("problem", ""))
    return {
        "profile": group.profile,
        "seeds": seeds_text(group.seeds),
        "note": group.caveat,
        "engine": ", ".join(dict.fromkeys(record.engine for record in group.records)),
        "data set": "" if problem == group.point["dataset"] else problem,
        "augmentation": group.settings.get("augmentation", ""),
        "pre-training epochs": group.settings.get("start", {}).get("epochs", ""),
        "epochs": group.epochs,
        **{name: used.get(name, "") for name in (*_SHOWN, *_OF_PERTURBATION)},
    }


def _columns(groups: SeedGroups) -> Sequence[Point]:
    """Return the coordinates of the columns, without the method, each once."""
    found: dict[tuple[tuple[str, Any], ...], Point] = {}
    for group in groups:
        column = {name: value for name, value in group.point.items() if name != "method"}
        found[tuple(column.items())] = column
    return sorted(found.values(), key=place)


def score(name: str, published: float | None, group: SeedGroup) -> Score:
    """Return the mean accuracies of a group's seeds, with the interval that decides the verdict."""
    if not group.evaluated:
        return Score(name, published, profile=group.profile, caveat=group.caveat)
    return Score(
        name,
        published,
        fmean(group.last.values()),
        prediction(list(group.last.values()), [fmean(group.last.values())], group.point),
        fmean(group.best.values()) if group.is_trained else None,
        group.profile,
        tuple(group.last.values()),
        group.caveat,
        METHOD_COLOURS[str(group.point["method"])],
    )
