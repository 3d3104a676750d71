"""The rule that turns a published number and ours into a verdict."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from repro.claims.claim import Claim

REPRODUCED = "reproduced"
CLOSE = "close"
CONTRADICTED = "contradicted"
OWN_EQUATIONS = "contradicts the paper's own equations"
NOT_RUN = "not run"

CLOSE_FRACTION = 0.05
"""Largest relative difference that still counts as close."""

VERDICTS = (REPRODUCED, CLOSE, CONTRADICTED, OWN_EQUATIONS, NOT_RUN)


@dataclass(frozen=True)
class Finding:
    """Our value for a claim, computed from records."""

    claim_id: str
    ours: float | None
    """In the claim's unit; ``None`` where the records do not hold it."""
    reason: str
    """How the value came about and, where it differs, the suspected cause."""
    n_seeds: int = 0
    """Independent seeds behind the value; 0 where nothing is random."""


def verdict(claim: Claim, ours: float | None) -> str:
    """Return the verdict on ``claim`` given our value.

    A value that rounds to the published digits is reproduced, and so is one on the claimed side of
    a bound. A value within ``CLOSE_FRACTION`` of the published one is close. Anything
    else contradicts the claim: or, where ours comes from the paper's equations, the claim
    contradicts them.
    """
    if ours is None:
        return NOT_RUN
    if _holds(claim, ours):
        return REPRODUCED
    if abs(ours - claim.published) <= CLOSE_FRACTION * abs(claim.published):
        return CLOSE
    return OWN_EQUATIONS if claim.basis == "analytic" else CONTRADICTED


def _holds(claim: Claim, ours: float) -> bool:
    rounded = _round_half_up(ours, claim.digits)
    if claim.relation == "at least":
        return rounded >= claim.published
    return rounded == claim.published


def _round_half_up(value: float, digits: int) -> float:
    """Round as numbers in print are: halves away from zero."""
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
