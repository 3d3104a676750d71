"""Our value for every claim on memory; if an advantage shrinks, also by how much and why."""

from collections.abc import Iterable, Mapping, Sequence

from repro.artifacts.shared.memory_estimates import (
    COMPACT,
    PARTS,
    TOTAL,
    EstimateKey,
    PartBytes,
    key,
    read,
)
from repro.claims.claim import Claim
from repro.claims.index import of_artifact
from repro.claims.memory import COMPARISONS, LENET5_PARAMETERS, Measure, MemoryQuantity, describe
from repro.claims.quantity import Point
from repro.claims.verdict import Finding
from repro.core.names import METHOD_LABELS
from repro.core.units import KIB, MIB, format_binary_bytes
from repro.measurement.records import Record

_PLAIN = "measured, no oneDNN"
FLOAT32 = 4

PointPair = tuple[Point, Point]
Estimates = Mapping[EstimateKey, PartBytes]


def findings(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``, from the records of one run."""
    estimates = read(records)
    return [_finding(claim, COMPARISONS[claim.id], estimates) for claim in of_artifact(slug)]


def _finding(claim: Claim, comparison: MemoryQuantity, estimates: Estimates) -> Finding:
    values = _values(comparison.measure, comparison.pairs, claim.basis, estimates)
    if len(values) < len(comparison.pairs):
        return Finding(
            claim.id,
            None,
            "the run lacks a step of this comparison; run all batches and methods, and the engine",
        )
    pick = min if comparison.pick == "smallest" else max
    chosen = pick(values, key=lambda number: values[number])
    pair = comparison.pairs[chosen]
    if comparison.measure in ("zo_share", "parameters"):
        row = estimates[key(pair[0], "analytic")]
        total = row[PARTS["parameters"]] // FLOAT32
        by_zo = total - row[PARTS["gradients"]] // FLOAT32
        said = f"{by_zo:,} of {total:,} parameters are trained by ZO"
        if comparison.measure == "parameters":
            said = f"{total:,} parameters, LeNet-5 {LENET5_PARAMETERS:,}"
        return Finding(claim.id, values[chosen], said)
    facts = [_sides(pair, claim.basis, estimates)]
    if len(values) > 1:
        where = describe(pair[0], precision=pair[0]["precision"] == pair[1]["precision"])
        facts[0] = f"{comparison.pick} of {len(values)} comparisons, at {where}: {facts[0]}"
    if claim.basis != "analytic":
        facts += _change(claim, comparison.measure, pair, estimates)
    elif len(values) > 1:
        low, high = (_number(end(values.values()), claim) for end in (min, max))
        facts.append(f"the comparisons give {low} to {high}")
    plausible = None
    if claim.unknown:
        alone = _at_batch_1(comparison.pairs, estimates)
        plausible = min(alone, *values.values()), max(alone, *values.values())
        facts.append(f"{_number(alone, claim)} at B = 1")
    corrected = _values(comparison.measure, comparison.corrected_pairs, claim.basis, estimates)
    others: dict[str, float] = {}
    if claim.basis == "engine" and any(step["precision"] == "int8" for step in pair):
        compact = _values(comparison.measure, comparison.pairs, COMPACT, estimates)
        others = {"compact": pick(compact.values())} if compact else {}
    return Finding(
        claim.id,
        values[chosen],
        "; ".join(facts),
        others=others,
        corrected=pick(corrected.values()) if corrected else None,
        correction=comparison.correction,
        plausible=plausible,
    )


def _at_batch_1(pairs: Sequence[PointPair], estimates: Estimates) -> float:
    """Return the ratio of two steps at B = 1 by the formulas, which are linear in B.

    Args:
        pairs: the two steps at two batch sizes.
        estimates: the memory of every step.
    """
    small, large = (float(pair[0]["batch"] or 0) for pair in pairs)
    weight = (1 - small) / (large - small)
    first, second = (
        (1 - weight) * low + weight * high
        for low, high in (
            [estimates[key(pair[side], "analytic")][TOTAL] for pair in pairs] for side in (0, 1)
        )
    )
    return first / second


def _values(
    measure: Measure, pairs: Sequence[PointPair], basis: str, estimates: Estimates
) -> dict[int, float]:
    """Return, by the pair's number, the measure of each pair whose steps are recorded."""
    return {
        number: value
        for number, pair in enumerate(pairs)
        if (value := _value(measure, pair, basis, estimates)) is not None
    }


def _value(measure: Measure, pair: PointPair, name: str, estimates: Estimates) -> float | None:
    """Return the measure of two steps by the estimate ``name``, in the claim's unit."""
    first, second = (  # float32 has no compact engine, so the plain one is used
        estimates.get(
            key(step, "engine" if name == COMPACT and step["precision"] == "fp32" else name)
        )
        for step in pair
    )
    if first is None or second is None:
        return None
    if measure == "total":
        return first[TOTAL] / MIB
    if measure == "extra":
        return (first[TOTAL] - second[TOTAL]) / KIB
    if measure == "overhead":
        return 100 * (first[TOTAL] / second[TOTAL] - 1)
    if measure == "ratio":
        return first[TOTAL] / second[TOTAL]
    if measure == "share":
        return 100 * _activations(second) / first[TOTAL]
    if measure == "zo_share":
        return 100 * (1 - first[PARTS["gradients"]] / first[PARTS["parameters"]])
    if measure == "parameters":
        return first[PARTS["parameters"]] / FLOAT32 / LENET5_PARAMETERS
    return _activations(first) / first[PARTS["parameters"]]


def _activations(row: PartBytes) -> int:
    """Return the bytes of activations and accumulators."""
    return sum(row[PARTS[part]] for part in ("activations", "int32_buffers"))


def _sides(pair: PointPair, name: str, estimates: Estimates) -> str:
    """Name the memory of both steps, and the memory that the formula gives."""
    said = []
    for step in pair if pair[0] != pair[1] else pair[:1]:
        total, formula = (estimates[key(step, of)][TOTAL] for of in (name, "analytic"))
        counted = "" if name == "analytic" else f" (formula {format_binary_bytes(formula)})"
        said.append(f"{_label(step, pair)} {format_binary_bytes(total)}{counted}")
    return ", ".join(said)


def _change(claim: Claim, measure: Measure, pair: PointPair, estimates: Estimates) -> list[str]:
    """Say how an observed value differs from the formula's, and the largest cause."""
    ours, formula = (_value(measure, pair, n, estimates) for n in (claim.basis, "analytic"))
    assert ours is not None  # noqa: S101 - there is a finding
    assert formula is not None  # noqa: S101 - every step has a formula
    by_formula = f"the paper's formula gives {_number(formula, claim)}"
    if measure != "overhead" and ours < formula:
        by_formula += f", so the advantage is {100 * (1 - ours / formula):.0f} % smaller"
    if claim.basis == "engine":
        return [by_formula]
    plain = _value(measure, pair, _PLAIN, estimates) if claim.basis == "measured" else None
    if plain is not None:
        return [by_formula, f"without oneDNN's kernels we measure {_number(plain, claim)}"]
    cause = _extra if measure == "overhead" else _largest_gap
    return [by_formula, cause(pair, estimates)]


def _extra(pair: PointPair, estimates: Estimates) -> str:
    """Name the tensors at the peak by which the first step differs from the second."""
    first, second = (estimates.get(key(step, "simulated")) for step in pair)
    if first is None or second is None:
        return "the tensors were not counted"
    gaps = {part: first[part] - second[part] for part in PARTS.values()}
    said = [
        f"{format_binary_bytes(abs(gap))} {'more' if gap > 0 else 'less'} of {part}"
        for part, gap in gaps.items()
        if gap
    ]
    return f"at its peak {_label(pair[0], pair)} holds {', '.join(said) or 'nothing more'}"


def _largest_gap(pair: PointPair, estimates: Estimates) -> str:
    """Name the part of either step in which its tensors differ most from the formula."""
    gaps: dict[str, int] = {}
    for step in pair:
        simulated, formula = (estimates.get(key(step, of)) for of in ("simulated", "analytic"))
        if simulated is None or formula is None:
            return f"the tensors of {_label(step, pair)} were not counted"
        for part in PARTS.values():
            found, counted = simulated[part], formula[part]
            what = f"{part} (pieces of noise)" if part == PARTS["other"] else part
            holds = f"{_label(step, pair)} holds {format_binary_bytes(found)} of {what}"
            gaps[f"{holds} (formula {format_binary_bytes(counted)})"] = abs(found - counted)
    return f"largest difference at the peak: {max(gaps, key=lambda name: gaps[name])}"


def _number(value: float, claim: Claim) -> str:
    return f"{value:.{claim.digits + 1}f} {claim.unit}"


def _label(step: Point, pair: PointPair) -> str:
    method = METHOD_LABELS[str(step["method"])]
    both = {one["precision"] for one in pair}
    return method if len(both) == 1 else f"{method} in {str(step['precision']).upper()}"
