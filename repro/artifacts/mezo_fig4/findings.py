"""Our value for each claim on Fig. 4, from the records of the highest profile that was run."""

from collections.abc import Sequence

from repro.artifacts.mezo_fig4.points import (
    Line,
    Setting,
    first_reached,
    running_maximum,
    settings,
)
from repro.claims.index import CLAIMS, of_artifact
from repro.claims.statistics import bootstrap_interval, estimate
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.finetuning.arms import LABELS, estimates
from repro.measurement.records import Record

_GAIN = 0.5
"""Of BP's gain, the part whose time is compared."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    found = settings(records)
    if not found:
        reason = "no run came to an evaluation"
        return [Finding(claim.id, None, reason) for claim in of_artifact("mezo_fig4")]
    return of_setting(found[0])


def of_setting(setting: Setting) -> list[Finding]:
    """Return a finding for every claim, from the records of one setting."""
    return [
        _peak(setting),
        *_accuracies(setting),
        _order(setting),
        _time(setting),
    ]


def _peak(setting: Setting) -> Finding:
    peaks = {
        f"{LABELS[r.point['arm']]} on {r.point['model']}": r.metrics["measured_peak_bytes"]
        for r in setting.plans
        if "measured_peak_bytes" in r.metrics
    }
    if not peaks:
        return Finding("A8-measured", None, "no step was measured")
    said = ", ".join(f"{name} {format_bytes(peak)}" for name, peak in peaks.items())
    published = CLAIMS["A8-measured"].published
    farthest = max((peak / GB for peak in peaks.values()), key=lambda peak: abs(peak - published))
    return Finding("A8-measured", farthest, f"measured: {said}", profile=setting.profile)


def _accuracies(setting: Setting) -> list[Finding]:
    found = []
    for claim_id, line in (("A9", _best(setting, zo=True)), ("A9-bp", _best(setting, zo=False))):
        if line is None or setting.dataset != "boolq":
            found.append(Finding(claim_id, None, _absent(setting)))
            continue
        spread = estimate(list(line.best().values()))
        found.append(
            Finding(
                claim_id,
                spread.mean,
                f"running maximum after {line.settings['seconds']:g} s of {line.label}"
                f"{_majority(setting)}",
                n_seeds=spread.n_seeds,
                interval=spread.interval,
                profile=setting.profile,
            )
        )
    return found


def _order(setting: Setting) -> Finding:
    mezo, bp = _best(setting, zo=True), _best(setting, zo=False)
    if mezo is None or bp is None or setting.dataset != "boolq":
        return Finding("A9-order", None, _absent(setting))
    if mezo.model == bp.model:
        reason = (
            f"here MeZO and BP train the same model, {mezo.model}: no larger one that can be had "
            "fits, and the claim is not put to the test"
        )
        return Finding("A9-order", None, reason)
    gaps = _paired(mezo.final(), bp.final())
    if not gaps:
        return Finding("A9-order", None, "of no seed both runs came to their end")
    spread = estimate(gaps)
    sides = [list(line.final().values()) for line in (bp, mezo)]
    return Finding(
        "A9-order",
        spread.mean,
        f"final accuracy of {mezo.label} less that of {bp.label}",
        n_seeds=spread.n_seeds,
        interval=spread.interval,
        profile=setting.profile,
        bootstrap=bootstrap_interval(sides, lambda means: means[1] - means[0]),
    )


def _time(setting: Setting) -> Finding:
    """Compare the times to half of BP's gain; a run that never gets there counts as its end."""
    mezo, bp = _best(setting, zo=True), _best(setting, zo=False)
    if mezo is None or bp is None or setting.dataset != "boolq":
        return Finding("A10", None, _absent(setting))
    gains, later, censored = [], {}, 0
    for record in bp.records:
        other = next((r for r in mezo.records if r.seed == record.seed), None)
        if other is None:
            continue
        points = running_maximum(record, "seconds")
        start, end = points[0][1], points[-1][1]
        height = start + _GAIN * (end - start)
        gains.append(end - start)
        reached = first_reached(running_maximum(other, "seconds"), height)
        censored += reached is None
        at = first_reached(points, height)
        if at is not None:
            later[record.seed] = (other.metrics["seconds"][-1] if reached is None else reached) - at
    noise = _noise(bp)
    if not gains or min(gains) < noise:
        reason = (
            f"BP gained {min(gains, default=0):.1f} points in {bp.settings['seconds']:g} s, which "
            f"the choice of {bp.settings['monitored_items']} questions alone may make "
            f"({noise:.1f}): there is no convergence to compare"
        )
        return Finding("A10", None, reason)
    spread = estimate(list(later.values()))
    reason = f"{mezo.label} after {bp.label}, to half of BP's gain of {min(gains):.1f} points"
    if censored:
        reason += f"; in {censored} of {len(later)} seeds never, counted as the end of its time"
    return Finding(
        "A10",
        spread.mean,
        reason,
        n_seeds=spread.n_seeds,
        interval=spread.interval,
        profile=setting.profile,
    )


def _noise(line: Line) -> float:
    """Return two standard errors, in points, of an accuracy near the majority's on the subset."""
    return float(200 * (0.25 / line.settings["monitored_items"]) ** 0.5)


def _best(setting: Setting, *, zo: bool) -> Line | None:
    """Return the line of BP or of MeZO with the highest mean accuracy."""
    lines = [line for line in setting.lines if bool(estimates(line.arm)) == zo]  # type: ignore[arg-type]
    return max(lines, key=lambda line: estimate(list(line.best().values())).mean, default=None)


def _paired(one: dict[int | None, float], other: dict[int | None, float]) -> list[float]:
    return [one[seed] - other[seed] for seed in one if seed in other]


def _majority(setting: Setting) -> str:
    if setting.majority is None:
        return ""
    return f"; always answering alike is right in {setting.majority:.1f} %"


def _absent(setting: Setting) -> str:
    if setting.dataset != "boolq":
        return f"the runs are on {setting.dataset}, a stand-in that says nothing of BoolQ"
    return "there are no runs of BP, or none of MeZO"
