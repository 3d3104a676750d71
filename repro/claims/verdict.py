"""The rule that turns a published number and ours into a verdict.

What follows from equations, tensors or an allocator is the same every time it is computed: it is
held against the printed digits. An accuracy that comes of training differs from seed to seed: it is
held against the spread, and only if it was trained at the published setting.
"""

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
REPRODUCED_POINTS, CLOSE_POINTS = 1, 3
"""Largest differences of trained accuracies, in percentage points. The papers print single runs of
unknown seeds without their spread: of an accuracy of 86 % on the 1,024 test images of ElasticZO's
Table 2, the choice of the images alone makes a standard error of 1.1 points."""
TRAINED_PROFILE = "paper"
"""The profile whose records give verdicts on what was trained."""

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
    interval: float | None = None
    """Half-width of the 95 % confidence interval over seeds, in the claim's unit; ``None`` for one
    seed, or where nothing is random."""
    profile: str | None = None
    """Lowest profile of the records behind the value; ``None`` says that of the whole run."""


def verdict(claim: Claim, finding: Finding) -> str:
    """Return the verdict on ``claim`` given our finding.

    A value that rounds to the published digits is reproduced, and so is one on the claimed side of
    a bound. A value within ``CLOSE_FRACTION`` of the published one is close. Anything else
    contradicts the claim: or, where ours comes from the paper's equations, the claim contradicts
    them.

    Of what was trained, records of ``TRAINED_PROFILE`` alone give a verdict. Reproduced is also a
    number within our interval over seeds or ``REPRODUCED_POINTS`` of ours; close one within
    ``CLOSE_POINTS``. An order of methods, published as a bound of 0 on the smallest gap between
    them, claims a sign: no distance makes up for a wrong one, and it is close if the interval does
    not settle it.
    """
    if finding.ours is None:
        return NOT_RUN
    if claim.basis == "trained" and finding.profile != TRAINED_PROFILE:
        return NOT_RUN
    distance = _distance(claim, finding.ours)
    if distance == 0:
        return REPRODUCED
    if claim.basis == "trained":
        return _trained(claim, distance, finding.interval)
    if abs(finding.ours - claim.published) <= CLOSE_FRACTION * abs(claim.published):
        return CLOSE
    return OWN_EQUATIONS if claim.basis == "analytic" else CONTRADICTED


def _trained(claim: Claim, distance: float, interval: float | None) -> str:
    inside = interval is not None and distance <= interval
    if claim.published == 0:
        return CLOSE if inside else CONTRADICTED
    if inside or distance <= REPRODUCED_POINTS:
        return REPRODUCED
    return CLOSE if distance <= CLOSE_POINTS else CONTRADICTED


def _distance(claim: Claim, ours: float) -> float:
    """Return how far ours, rounded as printed, lies from what is claimed; 0 if it holds."""
    excess = _round_half_up(ours, claim.digits) - Decimal(repr(claim.published))
    if claim.relation == "at least":
        return float(max(-excess, Decimal(0)))
    return float(abs(excess))


def _round_half_up(value: float, digits: int) -> Decimal:
    """Round as numbers in print are: halves away from zero."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
