"""Collect all published claims by id."""

from repro.claims import elasticzo, execution_time, loss_curves, memory, mezo
from repro.claims.claim import Claim

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        *mezo.CLAIMS,
        *elasticzo.CLAIMS,
        *loss_curves.CLAIMS,
        *memory.CLAIMS,
        *execution_time.CLAIMS,
    )
}


def of_artifact(slug: str) -> list[Claim]:
    """Return the claims an artifact answers, in the order of the paper."""
    return [claim for claim in CLAIMS.values() if claim.artifact == slug]
