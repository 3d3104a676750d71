"""Our share of right signs for each data set and method."""

from collections.abc import Sequence

from repro.artifacts.elasticzo_int8_sign import ARTIFACT
from repro.artifacts.elasticzo_int8_sign.shares import cells, share
from repro.claims.statistics import estimate
from repro.claims.trained import Cell
from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact; a claim's id ends in its set and method."""
    by_id = {f"B-sign-{set_}-{method}": cell for (set_, method), cell in cells(records).items()}
    return [_finding(claim_id, by_id.get(claim_id)) for claim_id in ARTIFACT.claims]


def _finding(claim_id: str, cell: Cell | None) -> Finding:
    if cell is None:
        return Finding(claim_id, None, "no run of this data set and method")
    right, exact, floor, zero = (
        estimate([share(record, rule) for record in cell.records])
        for rule in ("integer_is_float", "exact_is_float", "integer_is_exact", "integer_is_zero")
    )
    reason = (
        f"all steps of {cell.epochs} epochs; without the floor of the "
        f"logarithm {exact.mean:.1f} % would be right; the floor changes the sign in "
        f"{100 - floor.mean:.1f} % and finds no difference in {zero.mean:.1f} %"
    )
    reason += f"; {cell.caveat}" if cell.caveat else ""
    return Finding(claim_id, right.mean, reason, right.n_seeds, right.interval, cell.profile)
