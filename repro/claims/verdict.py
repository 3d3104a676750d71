"""The rule that turns a published statement and our value into one of nine verdicts.

A number from equations, tensors or an allocator is deterministic, and is compared with the printed
digits. A trained accuracy differs from seed to seed, and the published one is a single run, so it
is compared with the prediction interval for one further run. Only a test whose settings are all
known can end in "not reproduced".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from repro.claims.claim import Claim
from repro.measurement.records import Record

REPRODUCED = "reproduced"
CORRECTED = "reproduced, with a correction"
CLOSE = "close"
NOT_REPRODUCED = "not reproduced"
INCONSISTENT = "inconsistent in the paper"
NOT_DECIDABLE = "not decidable"
NOT_COMPARABLE = "not comparable"
UNDECIDED = "undecided"
NOT_RUN = "not run"

MEANINGS: dict[str, str] = {
    REPRODUCED: "our value on the statement's own basis agrees",
    CORRECTED: "our value agrees after the correction of an error in the paper, which is "
    "named beside it",
    CLOSE: "it differs by at most 5 %, or a trained accuracy by at most 3 points",
    NOT_REPRODUCED: "a faithful test with known settings gives something else",
    INCONSISTENT: "it contradicts the paper's own equations, and no reading repairs it",
    NOT_DECIDABLE: "it depends on a setting that the paper does not give; of the values that we "
    "tried, it holds for some and not for others, or the published number lies between results",
    NOT_COMPARABLE: "it is about hardware or a model that was not used here",
    UNDECIDED: "the test is inconclusive. There is only one seed, or the interval is too wide or "
    "contains a difference of 0 or the bound, or the runs show too little. Or our result "
    "*differs*: the paper leaves settings open, and the mean of none that we tried reaches the "
    "published number",
    NOT_RUN: "no records test it, or only records of profiles that give no verdict",
}
"""The meaning of each verdict, for legends."""
VERDICTS = tuple(MEANINGS)

CLOSE_FRACTION = 0.05
"""Largest relative difference at which a deterministic value still counts as close."""
CLOSE_POINTS = 3.0
"""Largest difference, in percentage points, at which a trained accuracy still counts as close. A
prediction interval with a larger half-width would hold most results, so it confirms none."""
TRAINED_PROFILE = "paper"
"""The profile whose records give verdicts on training."""


@dataclass(frozen=True)
class Finding:
    """Our value for a claim, computed from records."""

    claim_id: str
    ours: float | None
    """Our value in the claim's unit; ``None`` if it is not recorded."""
    reason: str
    """How the value was found and, if it differs, the suspected cause."""
    n_seeds: int = 0
    """Independent seeds behind the value; 0 where nothing is random."""
    interval: float | None = None
    """Half-width of the 95 % confidence interval of the mean, in the claim's unit; ``None`` for one
    seed, or where nothing is random."""
    profile: str | None = None
    """Lowest profile of the records behind the value; ``None`` means the profile of the whole run.
    Without a value it is the profile of records that tested the claim inconclusively."""
    bootstrap: tuple[float, float] | None = None
    """Ends of the 95 % interval of the mean by the stratified bootstrap, in the claim's unit."""
    p_value: float | None = None
    """One-sided p-value over seeds for the least certain difference being positive."""
    prediction: float | None = None
    """Half-width of the 95 % prediction interval for one further run, in the claim's unit."""
    best: float | None = None
    """Our value with each run's best epoch instead of its last."""
    best_prediction: float | None = None
    """Half-width of the prediction interval of ``best``."""
    corrected: float | None = None
    """Our value after correcting the slip that ``correction`` names."""
    correction: str = ""
    plausible: tuple[float, float] | None = None
    """Lowest and highest value that other settings gave, where the paper leaves settings open."""
    inconclusive: str = ""
    """Why the value decides nothing; empty if it does."""
    engine: str = ""
    """The engine that trained the runs: ``torch``, ``native``, or both."""
    others: Mapping[str, float] = field(default_factory=dict)
    """Values of runs by another engine or on another form of the data set, by its name."""
    records: tuple[Record, ...] = ()
    """The records behind the value, where the claim's points do not tell them."""

    @property
    def is_run(self) -> bool:
        """Whether records tested the claim, conclusively or not."""
        return self.ours is not None or self.profile is not None


def verdict(claim: Claim, finding: Finding) -> str:
    """Return the verdict on ``claim`` given our finding, one of ``VERDICTS``.

    A deterministic value is *reproduced* if it rounds to the published digits or lies on the
    claimed side of a bound, *reproduced, with a correction* if the corrected value does, and
    *close* within ``CLOSE_FRACTION``. Otherwise it is *not decidable* if plausible values of a
    missing setting give results on both sides of the published one, *undecided* if no other value
    of a missing setting was tried, *inconsistent in the paper* if it comes from the paper's own
    equations, and *not reproduced* in all other cases. A bound that holds for some plausible values
    of a missing setting and fails for others is *not decidable*, too. Times are *not comparable*,
    as our hardware differs.

    For trained values only records of the published setting count, unless the claim names others.
    See ``judge_value`` and ``judge_ranking``.
    """
    return _corrected(claim, _judge(claim, finding))


def _corrected(claim: Claim, found: str) -> str:
    """Return the verdict, with a correction if the published number itself was corrected."""
    return CORRECTED if claim.correction and found == REPRODUCED else found


def _judge(claim: Claim, finding: Finding) -> str:
    judging = judging_profiles(claim)
    if not finding.is_run or (judging and finding.profile not in judging):
        return NOT_RUN
    if claim.basis == "timed":
        return NOT_COMPARABLE
    if finding.ours is None or finding.inconclusive:
        return UNDECIDED
    if claim.basis == "trained":
        if is_ranking(claim):
            return judge_ranking(claim, finding)
        return judge_value(claim, finding, finding.ours, finding.prediction)
    tried = (*finding.plausible, finding.ours) if claim.unknown and finding.plausible else ()
    if claim.relation != "equals" and len({_distance(claim, value) == 0 for value in tried}) > 1:
        return NOT_DECIDABLE
    if _distance(claim, finding.ours) == 0:
        return REPRODUCED
    if finding.corrected is not None and _distance(claim, finding.corrected) == 0:
        return CORRECTED
    if abs(finding.ours - claim.published) <= CLOSE_FRACTION * abs(claim.published):
        return CLOSE
    if tried:
        ends = [_round_half_up(value, claim.digits) for value in tried]
        if min(ends) <= Decimal(repr(claim.published)) <= max(ends):
            return NOT_DECIDABLE
    if claim.unknown and finding.plausible is None:
        return UNDECIDED
    return INCONSISTENT if claim.basis == "analytic" else NOT_REPRODUCED


def best_epoch_verdict(claim: Claim, finding: Finding) -> str:
    """Return the verdict if the paper printed the best epoch instead of the last.

    It differs from ``verdict`` only for trained values, where ``finding.best`` is known.
    """
    usual = verdict(claim, finding)
    if finding.best is None or usual == NOT_RUN or is_ranking(claim):
        return usual
    found = judge_value(claim, finding, finding.best, finding.best_prediction)
    return _corrected(claim, found)


def shown(found: str, profile: str | None) -> str:
    """Return the text of a verdict; "not run" names the lower profile if only that was run."""
    return f"{NOT_RUN} (profile {profile} only)" if found == NOT_RUN and profile else found


def is_ranking(claim: Claim) -> bool:
    """Return whether ``claim`` only ranks trained results, without saying by how much."""
    return claim.basis == "trained" and claim.published == 0


def judging_profiles(claim: Claim) -> tuple[str, ...]:
    """Return the profiles whose records give a verdict on ``claim``; empty means all profiles."""
    return claim.judged_by or ((TRAINED_PROFILE,) if claim.basis == "trained" else ())


def judge_value(claim: Claim, finding: Finding, ours: float, prediction: float | None) -> str:
    """Judge a trained value.

    A trained accuracy or a difference of accuracies is compared with its prediction interval:

    - If the published value lies in the prediction interval, ours is *reproduced*, or *undecided*
      if the interval's half-width exceeds ``CLOSE_POINTS``.
    - A bound is *reproduced* if it holds by more than the half-width, however wide the interval. If
      the bound lies in the interval, it is *undecided*, as a further run may fall on either side.
    - An accuracy within ``CLOSE_POINTS`` is *close*, with at least two seeds. There is no such band
      for differences.
    - With one seed there is no interval. The value is *undecided*, or *not decidable* if other
      values of a setting that the paper leaves open lie on the other side of the published one.
    - Otherwise the value is *not reproduced* if all settings are known. If the paper leaves some
      open, it is *not decidable* if the means under other settings lie on both sides of the
      published value, and *undecided* if those we tried do not.
    """
    distance = _distance(claim, ours)
    is_accuracy = claim.unit == "%"
    if prediction is None:
        return _by_open_settings(claim, finding, ours) if claim.unknown else UNDECIDED
    if claim.relation != "equals" and distance == 0 and abs(ours - claim.published) > prediction:
        return REPRODUCED
    if distance <= prediction:
        narrow = claim.relation == "equals" and prediction <= CLOSE_POINTS
        return REPRODUCED if narrow else UNDECIDED
    if is_accuracy and distance <= CLOSE_POINTS:
        return CLOSE
    if not claim.unknown:
        return NOT_REPRODUCED
    return _by_open_settings(claim, finding, ours)


def judge_ranking(claim: Claim, finding: Finding) -> str:
    """Judge a ranking of trained accuracies.

    A ranking is judged by the least certain gap between neighbours, with the confidence interval of
    its mean:

    - The ranking is *reproduced* if the interval lies above zero.
    - It is *undecided* if the interval contains zero, or if there is only one seed.
    - If the interval lies below zero, the ranking is *not reproduced* if all settings are known. If
      the paper leaves some open, the rule for values applies.
    """
    gap, interval = finding.ours, finding.interval
    if gap is None or interval is None or abs(gap) <= interval:
        return UNDECIDED
    if gap > 0:
        return REPRODUCED
    return _by_open_settings(claim, finding, gap) if claim.unknown else NOT_REPRODUCED


def _by_open_settings(claim: Claim, finding: Finding, ours: float) -> str:
    """Return the verdict on a value that differs where the paper leaves settings open."""
    if finding.plausible is None:
        return UNDECIDED
    values = (*finding.plausible, ours)
    return NOT_DECIDABLE if min(values) <= claim.published <= max(values) else UNDECIDED


def _distance(claim: Claim, ours: float) -> float:
    """Return the distance of our value, rounded as printed, from the claim; 0 if it holds."""
    excess = _round_half_up(ours, claim.digits) - Decimal(repr(claim.published))
    if claim.relation == "at least":
        return float(max(-excess, Decimal(0)))
    if claim.relation == "at most":
        return float(max(excess, Decimal(0)))
    return float(abs(excess))


def _round_half_up(value: float, digits: int) -> Decimal:
    """Round as printed numbers are, with halves away from zero."""
    # by repr, since Decimal(2.675) is 2.67499..., which would be rounded down
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
