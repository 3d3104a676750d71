"""Make the notebook's tables: accuracies in per cent, with 95 % intervals over seeds."""

from collections.abc import Iterable, Sequence

import pandas as pd

from repro.artifacts.elasticzo_discrepancies import evaluated
from repro.artifacts.elasticzo_discrepancies.causes import VIEWS
from repro.artifacts.elasticzo_discrepancies.evaluated import comparisons
from repro.artifacts.shared.columns import headings, place, published
from repro.artifacts.shared.comparisons import IN_TABLE, Variant
from repro.claims.elasticzo import DATASETS, ROW_LABELS
from repro.claims.quantity import Key, Point, key
from repro.claims.statistics import MeanEstimate, estimate
from repro.claims.trained import SeedGroup, SeedGroups
from repro.measurement.records import Record


def by_cause(records: Sequence[Record]) -> pd.DataFrame:
    """Return accuracies by value for each cell and cause, and the published one.

    They are those after the last epoch; for runs from scratch those after the best one follow.
    """
    return pd.DataFrame(
        {
            "row": _name(one.row),
            "cause": one.axis.name,
            "accuracy by value (%)": "; ".join(
                f"{_label(v)}: {v.last.text()}"
                + ("" if "angle" in one.row else f" (best {v.best.text()})")
                for v in one.variants
            ),
            "published": _published(one.published),
            "seeds": _seeds(variant.last for variant in one.variants),
        }
        for one in comparisons(records)
    )


def gains_in_integers(records: Sequence[Record]) -> pd.DataFrame:
    """Return what fine-tuning by Full ZO in INT8 adds, in points, by setting and column of Table 2.

    The network before fine-tuning is that of the same seed. The first line has the published gains.
    """
    columns: dict[str, dict[str, str]] = {}
    for one in comparisons(records):
        if (
            one.row["method"] != "full_zo"
            or one.row["precision"] != "int8"
            or "angle" not in one.row
        ):
            continue
        dataset, angle, _ = headings(one.row)
        before = published()[key({**one.row, "method": "none"})]
        column = columns.setdefault(f"{dataset}, {angle}", {})
        column["published"] = f"{published()[key(one.row)] - before:+.2f}"
        for variant in (one.base, *one.variants):
            name = "the table's setting" if variant.is_base else f"{one.axis.name} {variant.label}"
            curves = [record.metrics["test_accuracy"] for record in variant.group.records]
            found = [100 * (curve[-1] - curve[0]) for curve in curves if curve]
            column[name] = estimate(found).text("+")
    return pd.DataFrame(columns).rename_axis("setting").reset_index().fillna("")


def long_point_clouds(records: Sequence[Record], table_1: Sequence[Record]) -> pd.DataFrame:
    """Return accuracies of PointNet in short runs and at the length of our Table 1, by setting.

    Args:
        records: of this artifact.
        table_1: of ``elasticzo_table1``, which has the long runs with nothing changed.
    """
    short: dict[tuple[Key, str], SeedGroup] = {}
    long: dict[tuple[Key, str], SeedGroup] = {}
    for group in SeedGroups(records):
        row = key({name: group.point[name] for name in IN_TABLE if name in group.point})
        changed = group.records[0].metrics["changed"].items()
        change = ", ".join(f"{name} = {value}" for name, value in changed) or "nothing"
        (long if "points" in group.point else short)[row, change] = group
    in_table_1 = SeedGroups(table_1)
    for row in dict.fromkeys(row for row, _ in long):
        if own := in_table_1.get(dict(row)):
            long[row, "nothing"] = own
    ordered = sorted(long, key=lambda at: (place(dict(at[0])), at[1] != "nothing"))
    return pd.DataFrame(
        {
            "row": _name(dict(row)),
            "changed": change,
            "seeds": " / ".join(str(len(group.seeds)) for group in pair),
            **{
                f"{group.length} epochs, {group.settings['points']:,} points (%)": estimate(
                    list(group.last.values())
                ).text()
                for group in pair
            },
            "published": _published(published().get(row)),
        }
        for row, change in ordered
        if (pair := [runs[row, change] for runs in (short, long) if (row, change) in runs])
    ).fillna("")


def by_images(records: Sequence[Record]) -> pd.DataFrame:
    """Return every network's accuracy on each set of rotated images, and the published one."""
    return pd.DataFrame(
        {
            "row": _name(row.row),
            "batch": "" if row.batch is None else str(row.batch),
            **{
                f"{name} (%)": row.scores[name].text() if name in row.scores else ""
                for name in VIEWS
            },
            "published": f"{row.published:.2f}",
            "seeds": _seeds(row.scores.values()),
        }
        for row in evaluated.rows(records)
    )


def by_pre_training(records: Sequence[Record]) -> pd.DataFrame:
    """Return accuracy before fine-tuning at 30 / 45 degrees by rate and batch of pre-training.

    The column ``farthest (points)`` has the larger distance of the two angles to the published
    values, on the images of our Table 2 and on the first ones of the test split.
    """
    return pd.DataFrame(
        {
            "data set": DATASETS[one.dataset],
            "rate": f"{one.rate:g}",
            "batch": str(one.batch),
            "our images (%)": _pair(one.scores["drawn"]),
            "first 1,024 (%)": _pair(one.scores["first"]),
            "published": " / ".join(f"{value:.2f}" for value in one.published),
            "farthest (points)": " / ".join(f"{one.distance(images):.1f}" for images in one.scores),
            "seeds": _seeds(score for pair in one.scores.values() for score in pair),
        }
        for one in evaluated.settings(records)
    )


def nearest_to_both(records: Sequence[Record]) -> str:
    """Return a sentence naming the pre-training setting nearest to all four published numbers."""
    parts = []
    for images, name in (("drawn", "our images"), ("first", "the first 1,024")):
        settings: dict[tuple[float, int], list[evaluated.PreTraining]] = {}
        for one in evaluated.settings(records):
            settings.setdefault((one.rate, one.batch), []).append(one)
        both = {
            at: max(one.distance(images) for one in found)
            for at, found in settings.items()
            if len(found) == 2
        }
        if both:
            rate, batch = nearest = min(both, key=both.__getitem__)
            seeds = _seeds(score for one in settings[nearest] for score in one.scores[images])
            parts.append(
                f"rate {rate:g} and batch {batch} on {name} (at most "
                f"{both[nearest]:.1f} points away; seeds of a data set: {seeds})"
            )
    if not parts:
        return "The records hold no setting on both data sets."
    return (
        f"The settings nearest to all four published numbers are {'; '.join(parts)}. Settings "
        "whose seeds differ by more than that may be as near."
    )


def _published(accuracy: float | None) -> str:
    return "" if accuracy is None else f"{accuracy:.2f}"


def _name(row: Point) -> str:
    return ", ".join((*headings(row), ROW_LABELS[str(row["method"])]))


def _label(variant: Variant) -> str:
    return variant.label + " (table's setting)" * variant.is_base


def _pair(found: Iterable[MeanEstimate]) -> str:
    return " / ".join(one.text() for one in found)


def _seeds(found: Iterable[MeanEstimate]) -> str:
    """Return the numbers of seeds behind the means; one number if all are equal."""
    return " to ".join(map(str, sorted({one.n_seeds for one in found})))
