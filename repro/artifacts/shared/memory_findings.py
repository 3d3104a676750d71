"""Our value for every claim on memory; if an advantage shrinks, also by how much and why."""

from collections.abc import Iterable, Sequence

from repro.artifacts.shared.memory_estimates import COMPACT, PARTS, StepMemory
from repro.artifacts.shared.memory_estimates import MemoryEstimates as Accounts
from repro.claims.claim import Claim
from repro.claims.index import of_artifact
from repro.claims.memory import (
    COMPARISONS,
    LENET5_PARAMETERS,
    Comparison,
    Measure,
    Point,
    describe,
)
from repro.claims.verdict import Finding
from repro.core.names import METHOD_LABELS
from repro.core.units import KIB, MIB, format_binary_bytes
from repro.measurement.records import Record

_PLAIN = "measured, no oneDNN"
FLOAT32 = 4

Pair = tuple[Point, Point]


def findings(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``, from the records of one run."""
    accounts = Accounts(records)
    return [_finding(claim, COMPARISONS[claim.id], accounts) for claim in of_artifact(slug)]


def _finding(claim: Claim, comparison: Comparison, accounts: Accounts) -> Finding:
    values = _values(comparison.measure, comparison.pairs, claim.basis, accounts)
    if len(values) < len(comparison.pairs):
        return Finding(claim.id, None, "the run does not have the paper's batch sizes and methods")
    pick = min if comparison.pick == "smallest" else max
    chosen = pick(values, key=lambda number: values[number])
    pair = comparison.pairs[chosen]
    if comparison.measure in ("zo_share", "parameters"):
        row = accounts.get("analytic", pair[0])
        assert row is not None  # noqa: S101 - the value was computed from it
        total = row.parts[PARTS["parameters"]] // FLOAT32
        by_zo = total - row.parts.get(PARTS["gradients"], 0) // FLOAT32
        said = f"{by_zo:,} of {total:,} parameters are trained by ZO"
        if comparison.measure == "parameters":
            said = f"{total:,} parameters, LeNet-5 {LENET5_PARAMETERS:,}"
        return Finding(claim.id, values[chosen], said)
    reason = _sides(pair, claim.basis, accounts)
    if len(values) > 1:
        listed = ", ".join(_number(value, claim) for value in values.values())
        reason += f"; {describe(pair[0])}, the {comparison.pick} of {listed}"
    if claim.basis != "analytic":
        reason += _change(claim, comparison.measure, pair, accounts)
    corrected = _values(comparison.measure, comparison.corrected_pairs, claim.basis, accounts)
    others: dict[str, float] = {}
    if claim.basis == "engine" and any(step["precision"] == "int8" for step in pair):
        compact = _values(comparison.measure, comparison.pairs, COMPACT, accounts)
        others = {"compact": pick(compact.values())} if compact else {}
    return Finding(
        claim.id,
        values[chosen],
        reason,
        others=others,
        corrected=pick(corrected.values()) if corrected else None,
        correction=comparison.correction,
    )


def _values(
    measure: Measure, pairs: Sequence[Pair], basis: str, accounts: Accounts
) -> dict[int, float]:
    """Return, by the pair's number, the measure of each pair whose steps are recorded."""
    return {
        number: value
        for number, pair in enumerate(pairs)
        if (value := _value(measure, pair, basis, accounts)) is not None
    }


def _value(measure: Measure, pair: Pair, name: str, accounts: Accounts) -> float | None:
    """Return the measure of two steps by the estimate ``name``, in the claim's unit."""
    first, second = (_account(name, step, accounts) for step in pair)
    if first is None or second is None:
        return None
    if measure == "total":
        return first.total / MIB
    if measure == "extra":
        return (first.total - second.total) / KIB
    if measure == "overhead":
        return 100 * (first.total / second.total - 1)
    if measure == "ratio":
        return first.total / second.total
    if measure == "share":
        return 100 * _activations(second) / first.total
    if measure == "zo_share":
        return 100 * (1 - first.parts[PARTS["gradients"]] / first.parts[PARTS["parameters"]])
    if measure == "parameters":
        return first.parts[PARTS["parameters"]] / FLOAT32 / LENET5_PARAMETERS
    return _activations(first) / first.parts[PARTS["parameters"]]


def _account(name: str, step: Point, accounts: Accounts) -> StepMemory | None:
    """Return an estimate of a step; float32 has no compact engine, so the plain one is used."""
    return accounts.get("engine" if name == COMPACT and step["precision"] == "fp32" else name, step)


def _activations(row: StepMemory) -> int:
    """Return the bytes of activations and accumulators."""
    return sum(row.parts.get(PARTS[part], 0) for part in ("activations", "int32_buffers"))


def _sides(pair: Pair, name: str, accounts: Accounts) -> str:
    """Name the memory of both steps, and its ratio to the formula's."""
    said = []
    for step in _different(pair):
        row, formula = accounts.get(name, step), accounts.get("analytic", step)
        assert row is not None  # noqa: S101 - the value was computed from it
        assert formula is not None  # noqa: S101 - every step has a formula
        share = "" if name == "analytic" else f" ({row.total / formula.total:.2f} of the formula)"
        said.append(f"{_label(step, pair)} {format_binary_bytes(row.total)}{share}")
    return ", ".join(said)


def _change(claim: Claim, measure: Measure, pair: Pair, accounts: Accounts) -> str:
    """Say how an observed value differs from the formula's, and which tensors are the cause."""
    ours, formula = (_value(measure, pair, n, accounts) for n in (claim.basis, "analytic"))
    assert ours is not None  # noqa: S101 - there is a finding
    assert formula is not None  # noqa: S101 - every step has a formula
    said = f"; by the formula {_number(formula, claim)}"
    if claim.basis == "engine":
        return said
    if measure == "overhead":
        said += f"; {_extra(pair, claim.basis, accounts)}"
    else:
        if ours < formula:
            said += f": the advantage shrinks by {100 * (1 - ours / formula):.0f} %"
        said += "".join(f"; {_missing(step, pair, accounts)}" for step in pair)
    if claim.basis == "measured":
        said += "".join(f"; {_scratch(step, pair, accounts)}" for step in _different(pair))
        plain = _value(measure, pair, _PLAIN, accounts)
        said += "" if plain is None else f"; without oneDNN {_number(plain, claim)}"
    return said


def _extra(pair: Pair, name: str, accounts: Accounts) -> str:
    """Say by how much the first step exceeds the second: observed, by formula and by tensors."""
    found, counted = (
        format_binary_bytes(KIB * (_value("extra", pair, n, accounts) or 0))
        for n in (name, "analytic")
    )
    first, second = (accounts.get("simulated", step) for step in pair)
    differences = "not known, for they were not counted"
    if first is not None and second is not None:
        gaps = {p: first.parts.get(p, 0) - second.parts.get(p, 0) for p in PARTS.values()}
        said = [
            f"{format_binary_bytes(abs(gap))} {'more' if gap > 0 else 'less'} of {part}"
            for part, gap in gaps.items()
            if gap
        ]
        differences = ", ".join(said) or "nothing"
    return (
        f"{found} more at the peak, where the formula counts {counted}; by its tensors that is "
        f"{differences}"
    )


def _missing(step: Point, pair: Pair, accounts: Accounts) -> str:
    """Name the part in which the tensors of a step differ most from the formula."""
    simulated, formula = accounts.get("simulated", step), accounts.get("analytic", step)
    if simulated is None or formula is None:
        return f"the tensors of {_label(step, pair)} were not counted"
    gaps = {
        part: simulated.parts.get(part, 0) - formula.parts.get(part, 0) for part in PARTS.values()
    }
    part = max(gaps, key=lambda name: abs(gaps[name]))
    found, counted = (format_binary_bytes(row.parts.get(part, 0)) for row in (simulated, formula))
    what = f"{part} (the pieces in which noise is drawn)" if part == PARTS["other"] else part
    return f"{_label(step, pair)} holds {found} of {what} at its peak, the formula counts {counted}"


def _scratch(step: Point, pair: Pair, accounts: Accounts) -> str:
    """Say by how much the allocator's peak of a step differs from the size of its tensors."""
    measured, simulated = (accounts.get(name, step) for name in ("measured", "simulated"))
    if measured is None or simulated is None:
        return f"the tensors of {_label(step, pair)} were not counted"
    beyond = measured.total - simulated.total
    if beyond == 0:
        return f"the allocator gave {_label(step, pair)} what its tensors take, to the byte"
    amount, than = format_binary_bytes(abs(beyond)), "more" if beyond > 0 else "less"
    return f"the allocator gave {_label(step, pair)} {amount} {than} than its tensors take"


def _different(pair: Pair) -> Pair | tuple[Point]:
    return pair if pair[0] != pair[1] else pair[:1]


def _number(value: float, claim: Claim) -> str:
    return f"{value:.{claim.digits + 1}f} {claim.unit}"


def _label(step: Point, pair: Pair) -> str:
    method = METHOD_LABELS[str(step["method"])]
    both = {one["precision"] for one in pair}
    return method if len(both) == 1 else f"{method} in {str(step['precision']).upper()}"
