"""The rule that turns a published number and ours into a verdict.

What follows from equations, tensors or an allocator is the same every time it is computed: it is
held against the printed digits. A time is that of a machine, and ours is not the paper's. An
accuracy that comes of training differs from seed to seed: it is held against the spread, and only
if it was trained at the published setting.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from repro.claims.claim import Claim

REPRODUCED = "reproduced"
CLOSE = "close"
CONTRADICTED = "contradicted"
OWN_EQUATIONS = "contradicts the paper's own equations"
OTHER_MACHINE = "differs on this machine"
UNDECIDED = "undecided"
NOT_RUN = "not run"

CLOSE_FRACTION = 0.05
"""Largest relative difference that still counts as close."""
REPRODUCED_POINTS, CLOSE_POINTS = 1, 3
"""Largest differences of trained accuracies, in percentage points. The papers print single runs of
unknown seeds without their spread: of an accuracy of 86 % on the 1,024 test images of ElasticZO's
Table 2, the choice of the images alone makes a standard error of 1.1 points."""
TRAINED_PROFILE = "paper"
"""The profile whose records give verdicts on what was trained."""

VERDICTS = (REPRODUCED, CLOSE, CONTRADICTED, OWN_EQUATIONS, OTHER_MACHINE, UNDECIDED, NOT_RUN)


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
    """Lowest profile of the records behind the value; ``None`` says that of the whole run. Without
    a value: of the records that put the claim to the test and cannot tell."""
    bootstrap: tuple[float, float] | None = None
    """Ends of the 95 % interval by the stratified bootstrap, in the claim's unit; beside
    ``interval``, by which the verdict is."""
    p_value: float | None = None
    """Of differences: one-sided, over seeds, that the least certain of them is positive."""

    @property
    def is_run(self) -> bool:
        """Whether records put the claim to the test, whether they decide it or not."""
        return self.ours is not None or self.profile is not None


def verdict(claim: Claim, finding: Finding) -> str:
    """Return the verdict on ``claim`` given our finding.

    A value that rounds to the published digits is reproduced, and so is one on the claimed side of
    a bound. A value within ``CLOSE_FRACTION`` of the published one is close. Anything else
    contradicts the claim: or, where ours comes from the paper's equations, the claim contradicts
    them. A time that is otherwise on our machine contradicts nothing: it differs.

    Of what was trained, records of ``TRAINED_PROFILE`` alone give a verdict, unless the claim
    names others that put it to the test. An accuracy is reproduced if the published one lies within
    ``REPRODUCED_POINTS`` of ours or within our interval over seeds, a difference of accuracies if
    the claim holds or the published one lies within the interval, which of a smallest or largest
    difference reaches as far as that of any it is chosen from. But one seed, or seeds whose
    interval is wider than ``CLOSE_POINTS`` to either side, confirm nothing: then it is close. Close
    is also what lies within ``CLOSE_POINTS``, or within a wider interval.

    An order of methods, published as a bound of 0 on the gaps between neighbours, claims signs, and
    no distance makes up for a wrong one. Ours is the least certain gap. The order is reproduced if
    the gap's whole interval lies above 0 and contradicted if it lies below. It is undecided if the
    interval holds 0, of one seed, which has none, and where runs that put it to the test cannot
    tell.
    """
    judging = judging_profiles(claim)
    if not finding.is_run or (judging and finding.profile not in judging):
        return NOT_RUN
    if finding.ours is None:
        return UNDECIDED
    if claim.basis == "trained":
        if is_order(claim):
            return _order(finding.ours, finding.interval)
        return _trained(claim, _distance(claim, finding.ours), finding.interval)
    if _distance(claim, finding.ours) == 0:
        return REPRODUCED
    if abs(finding.ours - claim.published) <= CLOSE_FRACTION * abs(claim.published):
        return CLOSE
    if claim.basis == "timed":
        return OTHER_MACHINE
    return OWN_EQUATIONS if claim.basis == "analytic" else CONTRADICTED


def shown(found: str, profile: str | None) -> str:
    """Return a verdict as people read it: "not run" alone would deny a run of a lower profile."""
    return f"{NOT_RUN} ({profile} only)" if found == NOT_RUN and profile else found


def is_order(claim: Claim) -> bool:
    """Tell whether ``claim`` says which methods are better, and not by how much."""
    return claim.basis == "trained" and claim.published == 0


def is_tested(claim: Claim) -> bool:
    """Tell whether ``claim`` says that something trained is the better, by whatever distance."""
    is_difference = claim.basis == "trained" and claim.unit == "points"
    return is_difference and claim.relation == "at least" and claim.published >= 0


def judging_profiles(claim: Claim) -> tuple[str, ...]:
    """Return the profiles whose records give a verdict on ``claim``; none is named for all."""
    return claim.judged_by or ((TRAINED_PROFILE,) if claim.basis == "trained" else ())


def points_above(claim: Claim, finding: Finding) -> float:
    """Return by how much a trained accuracy, rounded as printed, exceeds the published one, or 0.

    A bound cannot be exceeded: to lie above it is what it claims.
    """
    is_accuracy = claim.basis == "trained" and claim.unit == "%" and claim.relation == "equals"
    if not is_accuracy or finding.ours is None:
        return 0.0
    return float(max(_excess(claim, finding.ours), Decimal(0)))


def _trained(claim: Claim, distance: float, interval: float | None) -> str:
    spread = interval or 0.0
    band = 0 if claim.unit == "points" else REPRODUCED_POINTS
    confirms = interval is not None and interval <= CLOSE_POINTS
    if confirms and distance <= max(band, spread):
        return REPRODUCED
    return CLOSE if distance <= max(CLOSE_POINTS, spread) else CONTRADICTED


def _order(gap: float, interval: float | None) -> str:
    if interval is None or abs(gap) <= interval:
        return UNDECIDED
    return REPRODUCED if gap > 0 else CONTRADICTED


def _distance(claim: Claim, ours: float) -> float:
    """Return how far ours, rounded as printed, lies from what is claimed; 0 if it holds."""
    excess = _excess(claim, ours)
    if claim.relation == "at least":
        return float(max(-excess, Decimal(0)))
    if claim.relation == "at most":
        return float(max(excess, Decimal(0)))
    return float(abs(excess))


def _excess(claim: Claim, ours: float) -> Decimal:
    return _round_half_up(ours, claim.digits) - Decimal(repr(claim.published))


def _round_half_up(value: float, digits: int) -> Decimal:
    """Round as numbers in print are: halves away from zero."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
