"""Pair the simulated or measured steps of BP and MeZO, for figures, tables and findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from repro.claims.index import CLAIMS
from repro.claims.verdict import Finding
from repro.measurement.records import Record
from repro.memory.shape import LLAMA2_7B

SIZES = {"context": "context length N", "layers": "layers L", "hidden": "hidden dimension D"}
"""The sizes of a decoder that vary, one at a time, and their labels in figures."""
SYMBOLS = {"context": "N", "layers": "L", "hidden": "D"}


class Quoted(NamedTuple):
    """A saving printed in the paper, at one value of an axis."""

    method: Literal["bp", "bp_checkpoint"]
    axis: str
    value: int
    recovered_at: int | None = None
    """The value at which the recovered equations give the printed number, where the printed ones do
    not."""


QUOTED = {
    "A2": Quoted("bp", "context", 32768, 16384),
    "A3": Quoted("bp_checkpoint", "context", 32768),
    "A4": Quoted("bp", "layers", 1, 1),
    "A5": Quoted("bp", "layers", 100, 100),
    "A6-L100": Quoted("bp_checkpoint", "layers", 100, 100),
    "A7": Quoted("bp", "hidden", 512, 512),
    "A7-checkpointed": Quoted("bp_checkpoint", "hidden", 512),
}
"""The quoted savings by their claims; the other sizes are Llama 2 7B's."""
WHERE = [*SIZES, "attention", "dtype"]
_METRICS = ("peak", "parameters", "step", "formula")


def pairs(
    records: Iterable[Record], of: Sequence[str] = ("bp", "bp_checkpoint"), over: str = "mezo"
) -> pd.DataFrame:
    """Pair each step of the methods ``of`` with the step of ``over`` at its shape and kernel.

    All steps of one shape come from one device, from the CPU if it was measured. The columns are
    the shape, the method, the bytes of both (those of ``over`` with ``_over``), the ``ratio`` of
    the peaks, and ``size_ratio``: the parameters that MeZO can train in BP's memory, over this
    model's. The model grows in depth. MeZO holds the activations of one layer at a time, so all
    memory above its step's peak is available for the parameters of more layers.
    """
    rows = [{**r.point, **r.metrics, "device": device_of(r)} for r in of_one_device(records)]
    columns = [*WHERE, "method", "device", *(f"{name}_bytes" for name in _METRICS)]
    steps = pd.DataFrame(rows, columns=columns).dropna(subset="peak_bytes")
    steps = steps.drop_duplicates([*WHERE, "method", "device"], keep="last")
    both = steps[steps["method"].isin(of)].merge(
        steps[steps["method"] == over], on=WHERE, suffixes=("", "_over")
    )
    both["ratio"] = both["peak_bytes"] / both["peak_bytes_over"]
    room = both["peak_bytes"] - both["peak_bytes_over"]
    both["size_ratio"] = 1 + room / both["parameters_bytes_over"]
    return both


def at(points: pd.DataFrame, where: Mapping[str, str | int]) -> pd.DataFrame:
    """Return the rows that have the values ``where``."""
    return points[(points[list(where)] == pd.Series(where)).all(axis=1)]


def by_kernel(claim_id: str, values: Mapping[str, float], reason: str) -> Finding:
    """Return the value with eager attention, as the paper's equations count the N x N scores.

    The value with SDPA, which keeps no scores, is given beside it, or alone.

    Args:
        claim_id: the claim.
        values: our values by attention kernel.
        reason: how the value with eager attention was found.
    """
    others = {"SDPA": values["sdpa"]} if "sdpa" in values else {}
    return Finding(claim_id, values.get("eager"), reason, others=others)


def findings(
    points: pd.DataFrame, basis: str, reason: Callable[[pd.Series], str]
) -> Iterator[Finding]:
    """Yield our values for the quoted savings and for the smallest ratio of model sizes.

    Args:
        points: the result of ``pairs``.
        basis: ``simulated`` or ``measured``, as in the ids of the claims.
        reason: says of a pair with eager attention what it is.
    """
    if len(points):
        smallest = points.groupby("attention")["size_ratio"].min().to_dict()
        eager = sum(points["attention"] == "eager")
        why = f"smallest of {eager} {basis} pairs of steps, if the model grows in depth"
        yield by_kernel(f"A1-{basis}", smallest, why)
    of_7b = {name: getattr(LLAMA2_7B, name) for name in SIZES}
    for claim in CLAIMS.values():
        if claim.basis != basis or claim.same_as not in QUOTED:
            continue
        method, axis, value, _ = QUOTED[claim.same_as]
        here = at(points, of_7b | {axis: value, "method": method}).set_index("attention")
        if len(here):
            why = reason(here.loc["eager"]) if "eager" in here.index else ""
            yield by_kernel(claim.id, here["ratio"].to_dict(), why)


def of_one_device(records: Iterable[Record]) -> list[Record]:
    """Leave out steps on a GPU if the CPU has a peak of the same shape and kernel."""
    places = [(r, device_of(r), tuple(r.point[name] for name in WHERE)) for r in records]
    on_cpu = {at for r, device, at in places if device == "cpu" and "peak_bytes" in r.metrics}
    return [r for r, device, where in places if device == "cpu" or where not in on_cpu]


def device_of(record: Record) -> str:
    """Return the device on which a step was measured; simulated steps count as the CPU's."""
    return str(record.point.get("device") or "cpu")
