"""Our value for each claim on Fig. 4, from the records of the highest profile that has one."""

from collections.abc import Container, Sequence
from dataclasses import replace
from math import hypot, inf, sqrt
from statistics import fmean, stdev

from repro.artifacts.mezo_fig4.points import (
    GENERATED,
    ArmSeeds,
    TaskRuns,
    answers_right,
    first_reached,
    machine,
    running_maximum,
    settings,
)
from repro.claims.index import CLAIMS, of_artifact
from repro.claims.statistics import (
    bootstrap_interval,
    estimate,
    prediction_half_width,
    sign_flip_p,
)
from repro.claims.verdict import Finding, is_ranking
from repro.core.units import format_bytes
from repro.finetuning.arms import LABELS, PAPER_ARMS, SPECIFICATIONS
from repro.measurement.records import Record, rank

_OF_TASKS = ("A9-order-sst2", "A9-order-fewshot")
"""Statements of our own on the order of the final accuracies, on other tasks than the paper's."""
_GAIN = 0.5
"""Fraction of BP's gain for which the times are compared."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact, each of the highest profile with a value.

    An inconclusive part of a high profile does not hide the result of a complete lower profile.
    """
    found = [_of_statements(setting) for setting in settings(records)]
    if not found:
        reason = "no run reached its first evaluation"
        return [Finding(claim.id, None, reason) for claim in of_artifact("mezo_fig4")]
    return [max(of_claim, key=_telling) for of_claim in zip(*found, strict=True)]


def _telling(finding: Finding) -> tuple[bool, bool, bool, int, int]:
    """Rank findings: values first, then rankings by one seed only, then runs without a value.

    Among the latter those of a higher profile come first, then those of more seeds.
    """
    has_value = finding.ours is not None
    one_seed = is_ranking(CLAIMS[finding.claim_id]) and finding.interval is None
    found = has_value and not one_seed, has_value, finding.is_run
    if has_value:
        return (*found, 0, 0)
    return (*found, -1 if finding.profile is None else rank(finding.profile), finding.n_seeds)


def _of_statements(setting: TaskRuns) -> list[Finding]:
    """Return a finding for every claim; the paper's own are about BoolQ and need runs on it."""
    found = of_setting(setting)
    if setting.dataset == "boolq":
        return found
    reason = f"the runs use {setting.title}"
    return [
        one if one.claim_id in _OF_TASKS else Finding(one.claim_id, None, reason) for one in found
    ]


def of_setting(setting: TaskRuns) -> list[Finding]:
    """Return our value for every claim from the records of one setting, whatever its task."""
    found = [*_accuracies(setting), *_orders(setting), _time(setting)]
    runs = [record for line in setting.lines if line.arm in PAPER_ARMS for record in line.records]
    return [replace(finding, records=tuple(runs)) for finding in found]


def _peaks(setting: TaskRuns) -> str:
    """Name the measured peak of every set-up."""
    peaks = ((plan.point, plan.metrics.get("measured_peak_bytes")) for plan in setting.plans)
    return ", ".join(
        f"{LABELS[point['arm']]} on {point['model']} "
        f"{format_bytes(peak) if peak else 'more than the device has'}"
        for point, peak in peaks
    )


def _accuracies(setting: TaskRuns) -> list[Finding]:
    found = []
    for claim_id, line in (("A9", _best(setting, zo=True)), ("A9-bp", _best(setting, zo=False))):
        if line is None or setting.dataset != "boolq":
            found.append(Finding(claim_id, None, _absent(setting)))
            continue
        best, majority = list(line.best().values()), setting.majority("monitored")
        spread = estimate(best)
        chance = _standard_errors(_items(line, "monitored"), spread.mean)
        alike = (
            f"; always giving the same answer is right in {majority:.1f} % of its "
            f"{_items(line, 'monitored')} questions"
        )
        found.append(
            Finding(
                claim_id,
                spread.mean,
                f"running maximum after {_duration(line)} of {line.label}{alike}{_left_out(line)}",
                n_seeds=spread.n_seeds,
                interval=None if spread.interval is None else hypot(spread.interval, chance),
                prediction=prediction_half_width(best, (chance / 2) ** 2),
                profile=setting.profile,
            )
        )
    return found


def _orders(setting: TaskRuns) -> list[Finding]:
    """Judge the order by the statement on the setting's task, or by the paper's if it has none."""
    judged = "A9-order"
    if setting.is_few_shot:
        judged = "A9-order-fewshot"
    elif setting.dataset == "sst2":
        judged = "A9-order-sst2"
    found = {
        name: Finding(name, None, f"the runs use {setting.title}")
        for name in ("A9-order", *_OF_TASKS)
    }
    return list((found | {judged: replace(_order(setting), claim_id=judged)}).values())


def _order(setting: TaskRuns) -> Finding:
    """Compare final accuracies; the interval includes the sampling error of the questions.

    Older records do not tell which answers were right. For them the accuracies of the two methods
    are taken as independent, which gives a larger error. A BP that has learnt nothing shows only
    that the larger model started higher, so nothing is decided.
    """
    bp = _best(setting, zo=False)
    if bp is None or setting.dataset == GENERATED or _best(setting, zo=True) is None:
        return Finding("A9-order", None, _absent(setting))
    sizes = {plan.point["model"]: plan.metrics["body_parameters"] for plan in setting.plans}
    least = sizes.get(bp.model, inf)
    mezo = _best(setting, zo=True, of=[name for name, n in sizes.items() if n > least])
    if mezo is None:
        reason = (
            f"not tested: no larger model than BP's {bp.model} fits the budget with MeZO, of the "
            "models that are available (a model counts without embedding and output layer)"
        )
        return Finding("A9-order", None, reason)
    if not all("budget_bytes" in plan.metrics for plan in setting.plans):
        reason = f"not tested: the runs had no common memory budget; they take {_peaks(setting)}"
        return Finding("A9-order", None, reason)
    ends, others = bp.final(), mezo.final()
    paired = [seed for seed in others if seed in ends]
    sides = [[side[seed] for seed in paired] for side in (ends, others)]
    gaps = [end - start for start, end in zip(*sides, strict=True)]
    if not gaps:
        reason = "no seed has a finished run of both methods"
        return Finding("A9-order", None, reason, profile=setting.profile)
    spread = estimate(gaps)
    right = [answers_right(line, paired) for line in (bp, mezo)]
    if all(right):
        # a question that both get right or wrong adds nothing to the gap (McNemar 1947)
        by_item = [fmean(end) - fmean(start) for start, end in zip(*right, strict=True)]
        chance = 200 * stdev(by_item) / sqrt(len(by_item))  # two standard errors, in points
    else:
        chance = hypot(*(_standard_errors(_items(bp, "final"), fmean(side)) for side in sides))
    reason = (
        f"{setting.title}: final accuracy of {mezo.label} minus final accuracy of {bp.label}; the "
        f"choice of {_items(bp, 'final')} questions alone may shift it by {chance:.1f} points, "
        f"which the interval includes{_before_training(setting, mezo, bp, spread.mean)}"
        f"{_left_out(mezo)}{_left_out(bp)}"
    )
    nothing = _nothing_learnt(setting, bp)
    if nothing:
        reason = f"{nothing}; {reason}"
    return Finding(
        "A9-order",
        spread.mean,
        reason,
        inconclusive="BP had learnt too little to compare with" if nothing else "",
        n_seeds=spread.n_seeds,
        interval=None if spread.interval is None else hypot(spread.interval, chance),
        profile=setting.profile,
        bootstrap=bootstrap_interval(sides, lambda means: means[1] - means[0])
        if len(gaps) > 1
        else None,
        p_value=sign_flip_p(gaps),
    )


def _time(setting: TaskRuns) -> Finding:
    """Compare the times in which each arm, from its own start, gains half of BP's gain.

    A run that never gains as much counts with its total time, a lower bound. The delay of a seed is
    a multiple of BP's time, because seeds may come from machines of different speed. The two runs
    of a seed must come from one machine.
    """
    mezo, bp = _best(setting, zo=True), _best(setting, zo=False)
    if mezo is None or bp is None or setting.dataset == GENERATED:
        return Finding("A10", None, _absent(setting))
    others = {record.seed: record for record in mezo.records}
    pairs = [(record, others[record.seed]) for record in bp.records if record.seed in others]
    apart = [pair for pair in pairs if len({machine(record) for record in pair}) > 1]
    if pairs and len(apart) == len(pairs):
        machines = "; ".join(sorted({machine(record) for pair in pairs for record in pair}))
        return Finding("A10", None, f"the methods were timed on different machines: {machines}")
    nothing = _nothing_learnt(setting, bp)
    if nothing:
        return Finding("A10", None, nothing, len(bp.records), profile=setting.profile)
    later, censored, without = _delays([pair for pair in pairs if pair not in apart])
    reason = (
        f"{setting.title}: how much later {mezo.label} reaches half of the gain of {bp.label}, "
        "each from its own start, as a multiple of BP's time"
        f"{_left_out(mezo)}{_left_out(bp)}"
    )
    for count, why in ((without, "diverged or gained nothing"), (len(apart), "by two machines")):
        if count:
            reason += f"; {count} seed{'s' if count > 1 else ''} left out: {why}"
    if not later:
        return Finding("A10", None, f"{reason}; no seed is left", profile=setting.profile)
    if censored:
        reason += f"; in {censored} of {len(later)} seeds it never does"
    if 2 * censored > len(later):
        # a delay would be the length that we chose, and a higher start leaves less to gain
        starts = _starts(mezo), _starts(bp)
        reason += (
            f": MeZO starts at {starts[0]:.1f} %, BP at {starts[1]:.1f} %, so their convergence "
            "cannot be compared"
        )
        return Finding("A10", None, reason, len(later), profile=setting.profile)
    if censored:
        reason += ", and the time of the whole run counts"
    spread = estimate(later)
    return Finding(
        "A10",
        spread.mean,
        reason,
        n_seeds=spread.n_seeds,
        interval=spread.interval,
        profile=setting.profile,
        p_value=sign_flip_p(later),
    )


def _starts(arm: ArmSeeds) -> float:
    """Return the mean accuracy before training on the monitored items, in per cent."""
    return estimate([running_maximum(record, "seconds")[0][1] for record in arm.records]).mean


def _delays(pairs: Sequence[tuple[Record, Record]]) -> tuple[list[float], int, int]:
    """Return MeZO's delays as multiples of BP's time, from pairs of BP's and MeZO's run.

    Also returns how many seeds never got there, and how many have nothing to compare.
    """
    later, censored, without = [], 0, 0
    for fast, slow in pairs:
        curve, slower = (running_maximum(record, "seconds") for record in (fast, slow))
        gain = _GAIN * _gain(curve)
        if fast.metrics["divergence"] or slow.metrics["divergence"] or gain == 0:
            without += 1
            continue
        at = first_reached(curve, curve[0][1] + gain)
        assert at is not None  # noqa: S101 - a curve reaches what lies below its end
        reached = first_reached(slower, slower[0][1] + gain)
        censored += reached is None
        later.append((slower[-1][0] if reached is None else reached) / at - 1)
    return later, censored, without


def _nothing_learnt(setting: TaskRuns, bp: ArmSeeds) -> str:
    """Return the reason why there is nothing to compare with BP, or the empty string.

    BP's gain has to exceed the sampling error of the monitored questions. Its final accuracy has to
    exceed the accuracy of always giving the same answer, which a model reaches by learning only the
    share of yes.
    """
    gain = estimate([_gain(running_maximum(record, "seconds")) for record in bp.records]).mean
    noise = _standard_errors(_items(bp, "monitored"))
    if gain < noise:
        return (
            f"nothing to compare: BP gained {gain:.1f} points in {_duration(bp)}, "
            f"and the choice of {_items(bp, 'monitored')} questions alone may shift an accuracy by "
            f"{noise:.1f} points"
        )
    final, alike = list(bp.final().values()), setting.majority("final")
    if not final or alike is None:
        return "no run of BP is finished"
    above, noise = estimate(final).mean - alike, _standard_errors(_items(bp, "final"))
    if above < noise:
        # rounding may leave -0.0, which + 0 turns into 0.0
        return (
            f"nothing to compare: BP ends {round(above, 1) + 0:+.1f} points from "
            f"always giving the same answer, and the choice of {_items(bp, 'final')} questions "
            f"alone may shift an accuracy by {noise:.1f} points"
        )
    return ""


def _duration(line: ArmSeeds) -> str:
    steps = line.settings["steps"]
    return f"{steps} steps" if steps else f"{line.settings['seconds']:g} s"


def _before_training(setting: TaskRuns, mezo: ArmSeeds, bp: ArmSeeds, gap: float) -> str:
    """Say how large the gap between the two models was before any training."""
    starts = [setting.before_training(line) for line in (mezo, bp)]
    if None in starts:
        return ""
    before = starts[0] - starts[1]  # type: ignore[operator]
    return (
        f"; before training, {mezo.model} was {before:+.1f} points from {bp.model}, so training "
        f"changed the gap by {gap - before:+.1f} points"
    )


def _gain(curve: Sequence[tuple[float, float]]) -> float:
    """Return the rise of a running maximum, in points."""
    return curve[-1][1] - curve[0][1]


def _standard_errors(items: int, accuracy: float = 50) -> float:
    """Return two standard errors, in points, of an accuracy in per cent on ``items`` questions."""
    # the default of 50 % has the largest error
    return float(2 * sqrt(accuracy * (100 - accuracy) / items))


def _items(line: ArmSeeds, which: str) -> int:
    """Return the number of questions on which ``line`` was evaluated."""
    return int(line.records[0].metrics["items"][which])


def _best(setting: TaskRuns, *, zo: bool, of: Container[str] | None = None) -> ArmSeeds | None:
    """Return the line of BP or MeZO with the most seeds, on any model or one ``of``.

    Among equals it is the one with the highest mean accuracy. A single lucky seed does not count
    more than several.
    LoRA and ElasticZO are this suite's baselines; the paper makes no statement about them.
    """
    lines = [
        line
        for line in setting.lines
        if line.arm in PAPER_ARMS
        and bool(SPECIFICATIONS[line.arm].estimates) == zo
        and (of is None or line.model in of)
    ]
    return max(
        lines,
        key=lambda line: (len(line.records), estimate(list(line.best().values())).mean),
        default=None,
    )


def _left_out(line: ArmSeeds) -> str:
    if not line.left_out:
        return ""
    seeds = f"{line.left_out} seed{'s' if line.left_out > 1 else ''} of {line.label}"
    return f"; {seeds} left out: other settings"


def _absent(setting: TaskRuns) -> str:
    if setting.dataset != "boolq":
        return f"the runs use {setting.title}, and the statement is about BoolQ"
    return "no runs of BP, or no runs of MeZO"
