"""Our value for each claim on loss curves, from the training runs of a figure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from repro.claims.elasticzo import describe, describe_gap
from repro.claims.index import of_artifact
from repro.claims.loss_curves import CONTRASTS, Contrast, Losses
from repro.claims.statistics import MeanEstimate, estimate, largest_p
from repro.claims.trained import RunSeed, SeedGroup, SeedGroups, least_certain
from repro.claims.verdict import Finding
from repro.measurement.records import Record, rank


@dataclass(frozen=True)
class _Compared:
    """A contrast of one pair of curves, by seed."""

    name: str
    by_seed: dict[RunSeed, float]
    sides: tuple[SeedGroup, ...]
    short: int
    """Number of runs that ended before the epochs compared."""

    @property
    def estimate(self) -> MeanEstimate:
        """Mean over seeds, with its interval."""
        return estimate(list(self.by_seed.values()))

    @property
    def caveat(self) -> str:
        """Runs that diverged, ended early or were left out, in brackets; empty if none."""
        told = [group.caveat for group in self.sides]
        if self.short:
            told.append(f"{self.short} not trained long enough")
        return f" ({'; '.join(dict.fromkeys(filter(None, told)))})" if any(told) else ""


def findings(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``."""
    groups = SeedGroups(records)
    return [_finding(claim.id, CONTRASTS[claim], groups) for claim in of_artifact(slug)]


def _finding(claim_id: str, contrast: Contrast, groups: SeedGroups) -> Finding:
    compared = []
    for pair, (label, number) in product(contrast.pairs, contrast.numbers.items()):
        curve, other = pair
        found: tuple[SeedGroup | None, ...]
        found = (groups.get(curve),) if other is None else groups.pair(curve, other)
        for point, group in zip(pair, found, strict=False):
            if group is None and point is not None:
                return Finding(claim_id, None, f"no run of {describe(point)}")
        trained = tuple(group for group in found if group is not None)
        name = (describe(curve) if other is None else describe_gap(curve, other)) + label
        runs = [record for group in trained for record in group.records]
        short = sum(not _is_long_enough(record, contrast) for record in runs)
        by_seed = _by_seed(contrast, number, trained)
        if not by_seed:
            return Finding(claim_id, None, f"no seed of {name} reached epoch {contrast.epochs}")
        compared.append(_Compared(name, by_seed, trained, short))
    counts = min(compared, key=lambda one: least_certain(one.by_seed))
    listed = ", ".join(f"{one.name} {one.estimate.mean:+.4f}{one.caveat}" for one in compared)
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
    contrast: Contrast, number: Callable[[Losses], float], sides: Sequence[SeedGroup]
) -> dict[RunSeed, float]:
    """Subtract seed by seed; runs with fewer than ``contrast.epochs`` epochs do not count."""
    losses = f"{contrast.kind}_loss"
    numbers = [
        {
            record.seed: number(record.metrics[losses])
            for record in group.records
            if _is_long_enough(record, contrast)
        }
        for group in sides
    ]
    seeds = set.intersection(*(set(found) for found in numbers))
    return {
        seed: value - sum(other[seed] for other in numbers[1:])
        for seed, value in numbers[0].items()
        if seed in seeds
    }


def _is_long_enough(record: Record, contrast: Contrast) -> bool:
    return len(record.metrics[f"{contrast.kind}_loss"]) > contrast.epochs
