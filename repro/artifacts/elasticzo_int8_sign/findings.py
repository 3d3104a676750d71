"""Our share of right signs for each data set and method."""

from collections.abc import Sequence

from repro.artifacts.elasticzo_int8_sign import ARTIFACT
from repro.artifacts.elasticzo_int8_sign.shares import runs, share
from repro.claims.statistics import estimate
from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact; a claim's id ends in its set and method."""
    by_id = {f"B-sign-{set_}-{method}": found for (set_, method), found in runs(records).items()}
    return [_finding(claim_id, by_id.get(claim_id, ())) for claim_id in ARTIFACT.claims]


def _finding(claim_id: str, found: Sequence[Record]) -> Finding:
    if not found:
        return Finding(claim_id, None, "no run of this data set and method")
    right, exact, floor, zero = (
        estimate([share(record, rule) for record in found])
        for rule in ("integer_is_float", "exact_is_float", "integer_is_exact", "integer_is_zero")
    )
    reason = (
        f"all steps of {len(found[0].metrics['signs'])} epochs; without the floor of the "
        f"logarithm {exact.mean:.1f} % would be right; the floor changes the sign in "
        f"{100 - floor.mean:.1f} % and finds no difference in {zero.mean:.1f} %"
    )
    return Finding(claim_id, right.mean, reason, right.n_seeds, right.interval, found[0].profile)
