"""What the records hold: runs beside those of the tables, and networks on other rotated images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from repro.artifacts.elasticzo_misses.causes import CAUSES
from repro.artifacts.shared import comparisons as shared
from repro.artifacts.shared.comparisons import Comparison
from repro.artifacts.shared.scores import place, published
from repro.claims.quantity import Point, key
from repro.claims.statistics import Estimate, estimate
from repro.measurement.records import Record, of_kind

TABLE_2: Point = {
    "images": "drawn",
    "turn": "counter-clockwise",
    "interpolation": "bilinear",
}
"""The images of our Table 2."""
FIRST: Point = {**TABLE_2, "images": "first"}
VIEWS: dict[str, Point] = {
    "ours": TABLE_2,
    "first 1,024": FIRST,
    "all 10,000": {**TABLE_2, "images": "all"},
    "clockwise": {**TABLE_2, "turn": "clockwise"},
    "nearest pixel": {**TABLE_2, "interpolation": "nearest"},
}
"""What is evaluated on, as people read it."""
START: Point = {"start_lr": 1e-3, "start_batch": 32}
"""How the networks of our Table 2 are pre-trained in float32 ..."""
INTEGER_START: Point = {"start_lr": None, "start_batch": 256}
"""... and in integers, that have no rate."""
ANGLES = (30, 45)
_IN_TABLE = ("dataset", "angle", "precision", "method")


@dataclass(frozen=True)
class SeedMean(Estimate):
    """A mean that keeps its seeds."""

    seeds: tuple[float, ...]
    """Per cent, in the order of the seeds."""

    def text(self, sign: Literal["", "+"] = "") -> str:
        """Return the mean; of two seeds both, for their interval says nothing."""
        if len(self.seeds) != 2:
            return super().text(sign)
        both = ", ".join(f"{seed:{sign}.2f}" for seed in self.seeds)
        return f"{self.mean:{sign}.2f} ({both})"


@dataclass(frozen=True)
class NetworkScores:
    """One network of Table 2 on every kind of images."""

    row: Point
    """Coordinates of the cell in the table."""
    batch: int | None
    """Of fine-tuning; none without."""
    scores: dict[str, SeedMean]
    """By the names of ``VIEWS``, in per cent."""
    published: float
    profile: str


@dataclass(frozen=True)
class PreTraining:
    """One data set by one rate and batch of pre-training."""

    dataset: str
    rate: float
    batch: int
    drawn: tuple[SeedMean, ...]
    """Per cent, at each angle, on the images of Table 2 ..."""
    first: tuple[SeedMean, ...]
    """... and on the first ones of the test split."""
    profile: str


class Evaluations:
    """The evaluations that records hold, found by their points."""

    def __init__(self, records: Sequence[Record]) -> None:
        """Take the records that stand, all of one profile; other kinds are passed by."""
        self.points: list[Point] = []
        self.profile = ""
        self._seeds: dict[object, dict[int | None, float]] = {}
        for record in of_kind(records, "evaluation"):
            self.profile = record.profile
            where = key(record.point)
            if where not in self._seeds:
                self.points.append(record.point)
            self._seeds.setdefault(where, {})[record.seed] = 100 * record.metrics["accuracy"]

    def get(self, *parts: Point) -> SeedMean | None:
        """Return the mean over seeds at the point that the parts make together."""
        point = {name: value for part in parts for name, value in part.items()}
        by_seed = self._seeds.get(key(point))
        if by_seed is None:
            return None
        seeds = [value for _, value in sorted(by_seed.items())]
        found = estimate(seeds)
        return SeedMean(found.mean, found.interval, found.n_seeds, tuple(seeds))


def comparisons(records: Sequence[Record]) -> list[Comparison]:
    """Return what the records hold of each cell and cause, in the order of the tables."""
    found = shared.comparisons(records, CAUSES, lambda cell: not cell.records[0].metrics["changed"])
    return sorted(found, key=lambda one: place(one.row))


def rows(records: Sequence[Record]) -> list[NetworkScores]:
    """Return every network that was evaluated on all kinds of rotated images or on some."""
    found = Evaluations(records)
    made = []
    for cell in _cells(found):
        row = {name: cell[name] for name in _IN_TABLE}
        start = START if row["precision"] == "fp32" else INTEGER_START
        scores = {
            name: score
            for name, view in VIEWS.items()
            if (score := found.get(cell, start, view)) is not None
        }
        if len(scores) > len((TABLE_2, FIRST)):  # these two are of the grid of pre-training
            batch = cell.get("batch")
            tuned_with = None if batch is None else int(batch)
            made.append(
                NetworkScores(row, tuned_with, scores, published()[key(row)], found.profile)
            )
    return sorted(made, key=_place)


def settings(records: Sequence[Record]) -> Iterator[PreTraining]:
    """Yield every rate and batch of pre-training that the records hold at both angles."""
    found = Evaluations(records)
    network: Point = {"precision": "fp32", "method": "none"}
    starts = {
        (str(p["dataset"]), float(p["start_lr"] or 0), int(p["start_batch"] or 0))
        for p in found.points
        if network.items() <= p.items()
    }
    for dataset, rate, batch in sorted(starts, key=lambda s: (s[0] != "mnist", s[1], s[2])):
        start: Point = {**network, "dataset": dataset, "start_lr": rate, "start_batch": batch}
        scores = [
            [found.get(start, view, {"angle": angle}) for angle in ANGLES]
            for view in (TABLE_2, FIRST)
        ]
        drawn, first = (tuple(s for s in of if s is not None) for of in scores)
        if len(drawn) == len(first) == len(ANGLES):
            yield PreTraining(dataset, rate, batch, drawn, first, found.profile)


def pair(dataset: str) -> tuple[float, ...]:
    """Return what the paper prints at both angles without fine-tuning in float32."""
    where = {"dataset": dataset, "precision": "fp32", "method": "none"}
    return tuple(published()[key({**where, "angle": angle})] for angle in ANGLES)


def _cells(found: Evaluations) -> list[Point]:
    names = (*_IN_TABLE, "batch")
    cells = ({name: p[name] for name in names if name in p} for p in found.points)
    return list({key(cell): cell for cell in cells}.values())


def _place(one: NetworkScores) -> tuple[object, ...]:
    """Sort by data set, precision, method, angle, and the largest batch first."""
    dataset, precision, angle, method = place(one.row)
    return dataset, precision, method, angle, -(one.batch or 0)
