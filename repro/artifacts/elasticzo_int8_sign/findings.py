"""Our share of right signs, over all steps, methods and data sets."""

from collections.abc import Sequence
from statistics import fmean

from repro.artifacts.elasticzo_int8_sign.shares import by_epoch, cells, share
from repro.claims.elasticzo import DATASETS, METHODS
from repro.claims.statistics import estimate, prediction_half_width
from repro.claims.verdict import Finding
from repro.measurement.records import Record, rank

_RIGHT = "integer_is_float"
_PARTS = 6
"""Methods times data sets that the paper's one number is about."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return the finding for the artifact's one statement.

    Its plausible range is that of the epochs of all runs: the paper does not say over which steps
    it counted.
    """
    found = cells(records)
    if len(found) < _PARTS:
        reason = f"{len(found)} of the {_PARTS} methods and data sets were run"
        return [Finding("B-sign", None, reason)]
    by_seed: dict[int | None, list[float]] = {}
    for cell in found.values():
        for record in cell.records:
            by_seed.setdefault(record.seed, []).append(share(record, _RIGHT))
    seeds = [fmean(shares) for shares in by_seed.values() if len(shares) == _PARTS]
    if not seeds:
        return [Finding("B-sign", None, "no seed was run with every method and data set")]
    epochs = [
        fmean(shares)
        for cell in found.values()
        for shares in zip(*(by_epoch(record, _RIGHT) for record in cell.records), strict=False)
    ]
    mean = estimate(seeds)
    parts = ", ".join(
        f"{METHODS[method]} on {DATASETS[dataset]} "
        f"{fmean(share(record, _RIGHT) for record in cell.records):.1f} %"
        for (dataset, method), cell in found.items()
    )
    exact = fmean(share(r, "exact_is_float") for cell in found.values() for r in cell.records)
    return [
        Finding(
            "B-sign",
            mean.mean,
            f"over all steps: {parts}; by epoch from {min(epochs):.1f} to {max(epochs):.1f} %; "
            f"without the floor of the logarithm {exact:.1f} % would be right",
            n_seeds=mean.n_seeds,
            interval=mean.interval,
            profile=min((cell.profile for cell in found.values()), key=rank),
            prediction=prediction_half_width(seeds),
            plausible=(min(epochs), max(epochs)),
        )
    ]
