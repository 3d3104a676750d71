"""Our value for each claim on loss curves, from the training runs of a figure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from repro.claims.elasticzo import describe, describe_gap
from repro.claims.index import of_artifact
from repro.claims.loss_curves import CONTRASTS, Contrast, Curve
from repro.claims.statistics import MeanEstimate, estimate, largest_p
from repro.claims.trained import Seed, SeedGroup, SeedGroups
from repro.claims.verdict import Finding
from repro.measurement.records import Record, rank


@dataclass(frozen=True)
class _Compared:
    """A contrast of one pair of curves, by seed."""

    name: str
    by_seed: dict[Seed, float]
    sides: tuple[SeedGroup, ...]

    @property
    def estimate(self) -> MeanEstimate:
        """Mean over seeds, with its interval."""
        return estimate(list(self.by_seed.values()))

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the mean's 95 % interval; for a single seed, the mean twice."""
        found = self.estimate
        spread = found.interval or 0.0
        return found.mean - spread, found.mean + spread


def findings(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``."""
    groups = SeedGroups(records)
    return [_finding(claim.id, CONTRASTS[claim], groups) for claim in of_artifact(slug)]


def _finding(claim_id: str, contrast: Contrast, groups: SeedGroups) -> Finding:
    compared = []
    for pair, (label, number) in product(contrast.pairs, contrast.numbers.items()):
        sides = [(point, groups.get(point)) for point in pair if point is not None]
        for point, group in sides:
            if group is None:
                return Finding(claim_id, None, f"no run of {describe(point)}")
        trained = tuple(group for _, group in sides if group is not None)
        name = (describe_gap if len(sides) > 1 else describe)(
            *(point for point, _ in sides)
        ) + label
        found = _Compared(name, _by_seed(contrast, number, trained), trained)
        if not found.by_seed:
            reason = f"no seed of {found.name} reached epoch {contrast.epochs}"
            return Finding(claim_id, None, reason)
        compared.append(found)
    # a pair with its whole interval below 0 decides; without one, the pair with the lowest end
    counts = min(compared, key=lambda one: (one.ends[1] >= 0, one.ends[0]))
    listed = ", ".join(f"{one.name} {one.estimate.mean:+.4f}" for one in compared)
    records = [record for one in compared for group in one.sides for record in group.records]
    return Finding(
        claim_id,
        counts.estimate.mean,
        f"{counts.name}, the least certain of {len(compared)}; all: {listed}",
        counts.estimate.n_seeds,
        counts.estimate.interval,
        min((record.profile for record in records), key=rank),
        p_value=largest_p(list(one.by_seed.values()) for one in compared),
        engine=" and ".join(sorted({record.engine for record in records})),
    )


def _by_seed(
    contrast: Contrast, number: Callable[[Curve], float], sides: Sequence[SeedGroup]
) -> dict[Seed, float]:
    """Subtract seed by seed; runs with fewer than ``contrast.epochs`` epochs do not count."""
    losses = f"{contrast.kind}_loss"
    numbers = [
        {
            record.seed: number(record.metrics[losses])
            for record in group.records
            if len(record.metrics[losses]) > contrast.epochs
        }
        for group in sides
    ]
    seeds = set.intersection(*(set(found) for found in numbers))
    return {
        seed: value - sum(other[seed] for other in numbers[1:])
        for seed, value in numbers[0].items()
        if seed in seeds
    }
