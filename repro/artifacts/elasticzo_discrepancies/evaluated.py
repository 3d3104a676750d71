"""Read the records: runs with changed settings, and networks on other rotated images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from repro.artifacts.elasticzo_discrepancies.causes import CAUSES, FIRST, TABLE_2, VIEWS
from repro.artifacts.shared import comparisons as shared
from repro.artifacts.shared.columns import place, published
from repro.artifacts.shared.comparisons import IN_TABLE, AxisComparison
from repro.claims.quantity import Key, Point, key
from repro.claims.statistics import MeanEstimate, estimate
from repro.measurement.records import Record, of_kind

START: Point = {"start_lr": 1e-3, "start_batch": 32}
"""Pre-training of the networks of our Table 2 in float32."""
INTEGER_START: Point = {"start_lr": None, "start_batch": 256}
"""Pre-training of the networks of our Table 2 in integers, which has no learning rate."""
ANGLES = (30, 45)
_UNTUNED: Point = {"precision": "fp32", "method": "none"}


@dataclass(frozen=True)
class SeedMean(MeanEstimate):
    """A mean together with its seeds' values."""

    seeds: tuple[float, ...]
    """Per cent, in the order of the seeds."""

    def text(self, sign: Literal["", "+"] = "") -> str:
        """Return the mean as text; two seeds show both values instead of a very wide interval."""
        if len(self.seeds) != 2:
            return super().text(sign)
        both = ", ".join(f"{seed:{sign}.2f}" for seed in self.seeds)
        return f"{self.mean:{sign}.2f} ({both})"


@dataclass(frozen=True)
class NetworkScores:
    """Accuracies of one network of Table 2 on several sets of images."""

    row: Point
    """Coordinates of the cell in the table."""
    batch: int | None
    """Batch size of fine-tuning; ``None`` without fine-tuning."""
    scores: dict[str, SeedMean]
    """Accuracies in per cent, by the names of ``VIEWS``."""

    @property
    def published(self) -> float:
        """The published accuracy in per cent."""
        return published()[key(self.row)]


@dataclass(frozen=True)
class PreTraining:
    """One data set with one learning rate and batch size of pre-training."""

    dataset: str
    rate: float
    batch: int
    scores: dict[str, tuple[SeedMean, ...]]
    """Accuracies in per cent at each angle, on the images of Table 2 (``drawn``) and on the
    ``first`` ones."""

    @property
    def published(self) -> tuple[float, ...]:
        """The published accuracies without fine-tuning in float32, one for each angle."""
        where = {**_UNTUNED, "dataset": self.dataset}
        return tuple(published()[key({**where, "angle": angle})] for angle in ANGLES)

    def distance(self, images: str) -> float:
        """Return the larger distance of the two angles to the published values, in points."""
        pairs = zip(self.scores[images], self.published, strict=True)
        return max(abs(ours.mean - theirs) for ours, theirs in pairs)


def comparisons(records: Sequence[Record]) -> list[AxisComparison]:
    """Return the recorded comparison of each cell and cause, in the order of the tables.

    Raises:
        ReproError: two runs of a comparison differ in more settings than its cause.
    """
    found = list(
        shared.comparisons(records, CAUSES, lambda group: not group.records[0].metrics["changed"])
    )
    for one in found:
        one.require_alike()
    return sorted(found, key=lambda one: place(one.row))


def rows(records: Sequence[Record]) -> list[NetworkScores]:
    """Return every network evaluated on more sets of images than the pre-training grid uses.

    The order is by data set, precision, method and angle, with the largest batch size first.
    """
    found, made = _means(records), {}
    for point in (record.point for record in of_kind(records, "evaluation")):
        network = {name: point[name] for name in (*IN_TABLE, "batch") if name in point}
        row = {name: network[name] for name in IN_TABLE}
        start = START if row["precision"] == "fp32" else INTEGER_START
        at = {name: key({**network, **start, **view}) for name, view in VIEWS.items()}
        scores = {name: found[where] for name, where in at.items() if where in found}
        if len(scores) > len((TABLE_2, FIRST)):  # the pre-training grid uses these two only
            made[key(network)] = NetworkScores(row, network.get("batch"), scores)

    def order(one: NetworkScores) -> tuple[object, ...]:
        dataset, precision, angle, method = place(one.row)
        return dataset, precision, method, angle, -(one.batch or 0)

    return sorted(made.values(), key=order)


def batches_of_table(records: Sequence[Record]) -> dict[Key, int]:
    """Return the batch size of each row of Table 2, from the runs in which nothing is changed."""
    return {
        key({name: run.point[name] for name in IN_TABLE}): int(run.metrics["settings"]["batch"])
        for run in of_kind(records, "run")
        if "angle" in run.point and not run.metrics["changed"]
    }


def settings(records: Sequence[Record]) -> Iterator[PreTraining]:
    """Yield every learning rate and batch size of pre-training recorded at both angles."""
    found = _means(records)
    starts = {
        (str(point["dataset"]), float(point["start_lr"]), int(point["start_batch"]))
        for point in (record.point for record in of_kind(records, "evaluation"))
        if _UNTUNED.items() <= point.items()
    }
    for dataset, rate, batch in sorted(starts, key=lambda s: (s[0] != "mnist", s[1], s[2])):
        start = {**_UNTUNED, "dataset": dataset, "start_lr": rate, "start_batch": batch}
        at = {
            images: [key({**start, **view, "angle": angle}) for angle in ANGLES]
            for images, view in (("drawn", TABLE_2), ("first", FIRST))
        }
        if all(where in found for pair in at.values() for where in pair):
            scores = {images: tuple(found[where] for where in pair) for images, pair in at.items()}
            yield PreTraining(dataset, rate, batch, scores)


def _means(records: Sequence[Record]) -> dict[Key, SeedMean]:
    """Return the mean accuracy in per cent by evaluated point."""
    by_seed: dict[Key, dict[int, float]] = {}
    for record in of_kind(records, "evaluation"):
        seeds = by_seed.setdefault(key(record.point), {})
        seeds[record.seed or 0] = 100 * record.metrics["accuracy"]
    found = {}
    for where, seeds in by_seed.items():
        values = [value for _, value in sorted(seeds.items())]
        mean = estimate(values)
        found[where] = SeedMean(mean.mean, mean.interval, mean.n_seeds, tuple(values))
    return found
