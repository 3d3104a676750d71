"""Compute our values for claims on trained accuracies, from records.

A record of kind ``run`` is the run of one seed. In its ``metrics``, ``test_accuracy`` holds the
fractions before training and after each epoch, ``settings`` the settings of the training, and
``diverged`` whether it ended early at a loss that is not finite.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from operator import itemgetter
from statistics import fmean
from typing import Any

import msgspec

from repro.claims.elasticzo import CLOUD_EPOCHS, QUANTITIES, describe, describe_gap
from repro.claims.index import of_artifact
from repro.claims.quantity import Accuracy, Gaps, Key, Point, Quantity, key
from repro.claims.statistics import (
    NORMAL_QUANTILE,
    bootstrap_interval,
    estimate,
    largest_p,
    prediction_half_width,
)
from repro.claims.verdict import Finding
from repro.core.units import format_numbers
from repro.measurement.lengths import beginning_of, course_of, epochs_of
from repro.measurement.records import Record, of_kind, rank

SAMPLED_IMAGES = 1024
"""Number of rotated test images (Table 2); the paper does not say which of ``TEST_IMAGES``."""
TEST_IMAGES = 10_000

RunSeed = int | None
BySeed = Mapping[RunSeed, float]


@dataclass(frozen=True)
class SeedGroup:
    """All seeds of one point that were trained with the same settings."""

    records: tuple[Record, ...]
    """One record for each seed, in the order of the seeds."""
    left_out: tuple[Record, ...] = ()
    """Seeds with other settings than the newest; a common mean would mix two experiments."""

    @classmethod
    def of_each_length(cls, seeds: Sequence[Record]) -> "list[SeedGroup]":
        """Return the groups of one point: its records with the same settings as the newest.

        A run on clouds also counts for each shorter length in ``CLOUD_EPOCHS``, with the beginning
        of its curves: the learning rate is set epoch by epoch, so a shorter run is the same so far.
        """
        alike, others = of_newest_settings(seeds, lambda one: course_of(one.metrics["settings"]))
        shown = {epochs_of(record.metrics) for record in alike}
        for record in alike:
            if "points" in record.metrics["settings"]:
                shown |= {number for number in CLOUD_EPOCHS if number < epochs_of(record.metrics)}
        groups = []
        for length in shown:
            cut = tuple(
                msgspec.structs.replace(record, metrics=beginning_of(record.metrics, length))
                for record in alike
                if length <= epochs_of(record.metrics)
            )
            groups.append(cls(cut, tuple(others)))
        return groups

    def lead(self) -> tuple[int, int, int, str]:
        """Return the sort key of a point's groups: profile, number of seeds, length, age."""
        newest = max(record.utc for record in self.records)
        return rank(self.profile), len(self.records), self.length, newest

    @property
    def point(self) -> Point:
        """Coordinates of the group."""
        return self.records[0].point

    def made_like(self, other: "SeedGroup") -> bool:
        """Return whether the same engine and device trained both on the same form of the data."""
        mine, others = ((group.engine, group.device, group.dataset) for group in (self, other))
        return mine == others

    def unlike(self, other: "SeedGroup") -> str:
        """Return this group's engine, device, data set and length, if the other's differ."""
        mine, others = (
            (one.engine, one.device, one.dataset, f"{one.length} epochs") for one in (self, other)
        )
        return ", ".join(own for own, its in zip(mine, others, strict=True) if own != its)

    @property
    def profile(self) -> str:
        """Profile of the records."""
        return self.records[0].profile

    @property
    def engine(self) -> str:
        """The engine that trained every seed."""
        return self.records[0].engine

    @property
    def device(self) -> str:
        """The device that trained every seed."""
        return self.records[0].device

    @property
    def dataset(self) -> str:
        """The data set that every seed was trained on."""
        return self.records[0].dataset

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of every seed's training."""
        settings: Mapping[str, Any] = self.records[0].metrics["settings"]
        return settings

    @property
    def length(self) -> int:
        """Number of epochs of every seed's training."""
        return epochs_of(self.records[0].metrics)

    @property
    def seeds(self) -> list[RunSeed]:
        """Seeds over which means are taken."""
        return [record.seed for record in self.records]

    @property
    def epochs(self) -> str:
        """Finished epochs: ``100``, or ``3 to 100`` if a seed diverged; ``0`` without training."""
        done = {max(len(record.metrics["test_accuracy"]) - 1, 0) for record in self.records}
        return " to ".join(str(number) for number in sorted({min(done), max(done)}))

    @property
    def is_trained(self) -> bool:
        """Whether the group's method trains at all."""
        return self.point["method"] != "none"

    @property
    def diverged(self) -> set[RunSeed]:
        """Seeds whose training diverged; their last accuracy is the last one before that."""
        return {record.seed for record in self.records if record.metrics.get("diverged", False)}

    @property
    def caveat(self) -> str:
        """A short note on diverged and left-out seeds, which a mean hides; empty if none."""
        return caveat(len(self.records), self.diverged, self.left_out)

    @property
    def evaluated(self) -> list[Record]:
        """Records with an accuracy; a seed may have diverged before its first evaluation."""
        return [record for record in self.records if record.metrics["test_accuracy"]]

    @property
    def last(self) -> dict[RunSeed, float]:
        """Test accuracy after the last epoch, in per cent, by seed."""
        return {record.seed: 100 * record.metrics["test_accuracy"][-1] for record in self.evaluated}

    @property
    def best(self) -> dict[RunSeed, float]:
        """Test accuracy after the best epoch, in per cent, by seed.

        It is chosen on the test set, so it is biased upwards; the papers do not say whether they
        report the last or the best. The accuracy before training, the first of a curve, counts only
        if nothing was trained.
        """
        curves = {record.seed: record.metrics["test_accuracy"] for record in self.evaluated}
        return {seed: 100 * max(curve[1:] or curve) for seed, curve in curves.items()}


def of_newest_settings(
    records: Sequence[Record], settings: Callable[[Record], object]
) -> tuple[list[Record], list[Record]]:
    """Return the records with the same ``settings`` as the newest, by seed, and the other ones."""
    newest = settings(max(records, key=lambda record: record.utc))
    alike = [record for record in records if settings(record) == newest]
    others = [record for record in records if settings(record) != newest]
    return sorted(alike, key=lambda record: record.seed or 0), others


class SeedGroups:
    """All seed groups of an artifact, by their points.

    A point may have been trained by both engines, on a CPU and a GPU, on several forms of its data
    set, or for several numbers of epochs. Figures and verdicts use its leading group: of those of
    the highest profile the one with the most seeds, then the longest.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        """Read an artifact's current records; kinds other than ``run`` are ignored."""
        groups: dict[Key, dict[tuple[str, str, str], list[Record]]] = {}
        for record in of_kind(records, "run"):
            trained = groups.setdefault(key(record.point), {})
            made = record.engine, record.device, record.dataset
            trained.setdefault(made, []).append(record)
        self._groups = {
            where: sorted(
                chain.from_iterable(map(SeedGroup.of_each_length, trained.values())),
                key=SeedGroup.lead,
                reverse=True,
            )
            for where, trained in groups.items()
        }

    def __iter__(self) -> Iterator[SeedGroup]:
        """Yield the leading group of every point once."""
        return (groups[0] for groups in self._groups.values())

    def get(self, point: Point) -> SeedGroup | None:
        """Return the leading group with exactly the coordinates of ``point``, or ``None``."""
        return next(iter(self._groups.get(key(point), ())), None)

    def others(self, point: Point) -> list[SeedGroup]:
        """Return the other groups of ``point``: another engine, device, form of data or length."""
        return self._groups.get(key(point), [])[1:]

    def pair(self, low: Point, high: Point) -> tuple[SeedGroup | None, SeedGroup | None]:
        """Return the groups that a gap compares: of equal length, with the most seeds in common.

        They are made alike, by the same engine on the same form of the data set, if two such groups
        have at least half as many seeds in common. Without groups of equal length they are the
        leading ones.
        """
        lead_low, lead_high = self.get(low), self.get(high)
        if lead_low is None or lead_high is None:
            return lead_low, lead_high
        pairs = [
            (a, b)
            for a, b in product(*(self._groups[key(point)] for point in (low, high)))
            if (a.length, a.profile, b.profile) == (b.length, lead_low.profile, lead_high.profile)
        ]

        def common(pair: tuple[SeedGroup, SeedGroup]) -> int:
            return len({*pair[0].seeds} & {*pair[1].seeds})

        most = max(map(common, pairs), default=0)

        def preference(pair: tuple[SeedGroup, SeedGroup]) -> tuple[bool, bool, int, int]:
            a, b = pair
            alike = a.made_like(b) and 2 * common(pair) >= most
            leading = a.made_like(lead_low) and b.made_like(lead_high)
            return alike, leading, common(pair), a.length

        return max(pairs, key=preference, default=(lead_low, lead_high))


@dataclass(frozen=True)
class _Gap:
    """Accuracy of one group minus the accuracy of another, in points, by seed."""

    name: str
    by_seed: BySeed
    sides: tuple[SeedGroup, SeedGroup]
    """The subtracted group, and the group it is subtracted from."""
    by_best: BySeed
    """The gap between the best epochs, by seed."""

    @property
    def of_images(self) -> float:
        """95 % half-width of the gap on all test images, of which every seed sees one sample."""
        means = [fmean(side.last.values()) for side in self.sides]
        return NORMAL_QUANTILE * math.sqrt(sampling_variance(means, self.sides[0].point))


def least_certain(by_seed: BySeed, of_images: float = 0.0) -> tuple[bool, float, float]:
    """Return the sort key of a gap; the one with the smallest key decides whether all are positive.

    A gap with its whole interval below 0 decides; without one, the gap with the lowest end. The
    interval of a single seed is infinite. ``of_images`` is the half-width from the choice of the
    test images.
    """
    found = estimate(list(by_seed.values()))
    spread = math.inf if found.interval is None else math.hypot(found.interval, of_images)
    return found.mean + spread >= 0, found.mean - spread, found.mean


def caveat(n_seeds: int, diverged: Collection[RunSeed], left_out: Collection[object]) -> str:
    """Say how many of ``n_seeds`` diverged, and how many other seeds were left out."""
    parts = []
    if diverged:
        parts.append(f"{len(diverged)} of {n_seeds} diverged")
    if left_out:
        parts.append(f"{len(left_out)} left out: other settings")
    return ", ".join(parts)


def findings(quantities: Mapping[str, Quantity], records: Iterable[Record]) -> list[Finding]:
    """Return a finding for each claim id of ``quantities``; it has no value if a group is missing.

    Args:
        quantities: the accuracy or gap behind each claim, by claim id.
        records: the artifact's records.
    """
    groups = SeedGroups(records)
    return [
        _accuracy(claim_id, quantity, groups)
        if isinstance(quantity, Accuracy)
        else _gap(claim_id, quantity, groups)
        for claim_id, quantity in quantities.items()
    ]


def findings_of(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``, from its records."""
    return findings({claim.id: QUANTITIES[claim.id] for claim in of_artifact(slug)}, records)


def seeds_text(seeds: Iterable[RunSeed]) -> str:
    """Return the seeds in ascending order, three or more in a row as a range."""
    return format_numbers(seed for seed in seeds if seed is not None)


def sampling_variance(accuracies: Iterable[float], point: Point) -> float:
    """Return the variance from the choice of test images, in squared percentage points.

    It is 0 but for rotated images. A sample of n of the N test images shifts an accuracy of p by a
    variance of ``p (1 - p) / n``, times 1 - n / N as the images are drawn without replacement.

    Args:
        accuracies: an accuracy in per cent, or two whose difference is taken. The records do not
            say which images are classified rightly, so both are taken as independent. Networks
            mostly fail on the same images, so the variance is rather too large.
        point: coordinates of the group, or of either group of a difference.
    """
    if "angle" not in point:
        return 0.0
    shares = [accuracy / 100 for accuracy in accuracies]
    total = sum(p * (1 - p) for p in shares)
    return 1e4 * total / SAMPLED_IMAGES * (1 - SAMPLED_IMAGES / TEST_IMAGES)


def prediction(values: Sequence[float], accuracies: Sequence[float], point: Point) -> float | None:
    """Return the half-width of the 95 % prediction interval for one further run, in the same unit.

    For rotated images it includes the choice of the test images: all our seeds are evaluated on one
    sample, the paper's network on another.

    Args:
        values: accuracies or differences in per cent, one for each seed.
        accuracies: the mean accuracy, or the two whose difference is taken, in per cent.
        point: coordinates of the group, or of either group of a difference.

    Returns:
        ``None`` for one seed.
    """
    return prediction_half_width(values, 2 * sampling_variance(accuracies, point))


def _accuracy(claim_id: str, quantity: Accuracy, groups: SeedGroups) -> Finding:
    group = groups.get(quantity.point)
    if group is None:
        return Finding(claim_id, None, f"no run of {describe(quantity.point)}")
    if not group.evaluated:
        return Finding(claim_id, None, f"no accuracy of {describe(quantity.point)}: {group.caveat}")
    what = "without training"
    if group.is_trained:
        best = estimate(list(group.best.values())).mean
        what = f"after the last of {group.epochs} epochs ({best:.2f} % after the best)"
    others, by_length = {}, {group.length: estimate(list(group.last.values())).mean}
    for other in groups.others(quantity.point):
        if other.evaluated:
            mean = estimate(list(other.last.values())).mean
            others[other.unlike(group)] = mean
            if other.made_like(group):
                by_length[other.length] = mean
    ends = min(by_length.values()), max(by_length.values())
    return replace(
        _finding(claim_id, what, group.last, [group], group.profile),
        bootstrap=bootstrap_interval([list(group.last.values())], itemgetter(0)),
        others=others,
        plausible=ends if len(by_length) > 1 else None,
        **_predictions(group.last, group.best, [group]),
    )


def _gap(claim_id: str, quantity: Gaps, groups: SeedGroups) -> Finding:
    """Subtract seed by seed: seeds are independent, though the two methods of one seed may not be.

    Two number formats are subtracted across seeds: the paper trained them by programs of their own
    (section 5.2), so its two runs share no random numbers, while ours of one seed do.

    The finding has the lowest profile of all pairs, as the choice of the gap depends on all.
    """
    gaps: list[_Gap] = []
    for pair in quantity.pairs:
        low, high = groups.pair(*pair)
        if low is None or high is None:
            return Finding(claim_id, None, f"no run of {describe(pair[0 if low is None else 1])}")
        seeds = [seed for seed in high.last if seed in low.last]
        name = describe_gap(pair[1], pair[0])
        if not seeds:
            return Finding(claim_id, None, f"no seed has an accuracy on both sides of {name}")
        apart = pair[0]["precision"] != pair[1]["precision"]
        others = [*seeds[1:], seeds[0]] if apart else seeds
        by_last, by_best = (
            {
                seed: ends[1][seed] - ends[0][other]
                for seed, other in zip(seeds, others, strict=True)
            }
            for ends in ((low.last, high.last), (low.best, high.best))
        )
        gaps.append(_Gap(name, by_last, (low, high), by_best))
    p_value = largest_p(list(gap.by_seed.values()) for gap in gaps)
    lowest = min((side.profile for gap in gaps for side in gap.sides), key=rank)
    best = _picked([(gap.by_best, gap.of_images) for gap in gaps], quantity.pick)
    if quantity.pick == "least certain":
        counts = min(gaps, key=lambda gap: least_certain(gap.by_seed, gap.of_images))
        which = f", the least certain of {len(gaps)} gaps" if len(gaps) > 1 else ""
        what, gaps = f"{counts.name} after the last epoch{which}", [counts]
    else:
        which = f"the {quantity.pick} gap of each seed: " if len(gaps) > 1 else ""
        what = f"{which}{'; '.join(gap.name for gap in gaps)} after the last epoch"
    last = _picked([(gap.by_seed, gap.of_images) for gap in gaps], quantity.pick)
    if not last:
        return Finding(claim_id, None, f"no seed has all of {'; '.join(gap.name for gap in gaps)}")
    sides = [side for gap in gaps for side in gap.sides]
    found = _finding(claim_id, what, last, sides, lowest)
    if found.interval is not None:  # the order on all images, of which ours are one sample
        found = replace(
            found, interval=math.hypot(found.interval, max(gap.of_images for gap in gaps))
        )
    return replace(
        found,
        **_predictions(last, best, gaps[0].sides),
        p_value=p_value,
        bootstrap=_bootstrap(gaps, last),
    )


def _picked(of: Sequence[tuple[BySeed, float]], pick: str) -> BySeed:
    """Return the gap that counts; the smallest or largest is picked for each seed with all gaps.

    A paper prints such a gap from a single run of each method, so it is also taken run by run here.
    Each gap comes with its half-width from the choice of the test images.
    """
    if pick == "least certain":
        return min(of, key=lambda gap: least_certain(*gap))[0]
    gaps = [by_seed for by_seed, _ in of]
    choose = max if pick == "largest" else min
    common = [seed for seed in gaps[0] if all(seed in gap for gap in gaps)]
    return {seed: choose(gap[seed] for gap in gaps) for seed in common}


def _predictions(last: BySeed, best: BySeed, groups: Sequence[SeedGroup]) -> dict[str, Any]:
    """Return the value at the best epochs, and the prediction intervals at last and best epochs."""
    found: dict[str, Any] = {"best": estimate(list(best.values())).mean}
    for name, by_seed, end in (("prediction", last, "last"), ("best_prediction", best, "best")):
        means = [fmean(getattr(group, end).values()) for group in groups]
        found[name] = prediction(list(by_seed.values()), means, groups[0].point)
    return found


def _bootstrap(gaps: Sequence[_Gap], last: BySeed) -> tuple[float, float] | None:
    """Return the bootstrap interval of the mean of ``last``.

    The two methods of a single gap are drawn separately; a gap picked seed by seed is drawn whole.
    """
    if len(gaps) > 1:
        return bootstrap_interval([list(last.values())], itemgetter(0))
    strata = [[side.last[seed] for seed in last] for side in gaps[0].sides]
    return bootstrap_interval(strata, lambda means: means[1] - means[0])


def _finding(
    claim_id: str, what: str, by_seed: BySeed, groups: Sequence[SeedGroup], profile: str
) -> Finding:
    found = estimate(list(by_seed.values()))
    reason = f"{what}, seed{'s' if len(by_seed) > 1 else ''} {seeds_text(by_seed)}"
    run = set.intersection(*(set(group.seeds) for group in groups))
    diverged = {seed for group in groups for seed in group.diverged if seed in run}
    left_out = {record.seed for group in groups for record in group.left_out}
    if told := caveat(len(run), diverged, left_out):
        reason += f"; {told}"
    if diverged:
        reason += (
            "; a diverged seed counts with its last accuracy before it diverged, if it has one"
        )
    engines = {group.engine for group in groups}
    return Finding(
        claim_id,
        found.mean,
        reason,
        found.n_seeds,
        found.interval,
        profile,
        engine=" and ".join(sorted(engines)),
    )
