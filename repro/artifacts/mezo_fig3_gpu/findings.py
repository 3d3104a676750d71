"""Our values, measured on a GPU, for the statements on Fig. 3 and on the 17 GB of Fig. 4."""

from collections.abc import Iterable, Iterator, Sequence

from repro.artifacts.mezo_fig3_gpu import ARTIFACT
from repro.artifacts.shared.savings import SIZES, Saving, ratios
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind
from repro.memory.shape import LLAMA2_7B

_WHERE = {
    "A3-measured": ("bp_checkpoint", "context", 32768),
    "A4-measured": ("bp", "layers", 1),
    "A7-measured": ("bp", "hidden", 512),
}
"""Kind of BP, axis and value on it of each saving; the other sizes are Llama 2 7B's."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact, without a value if no GPU measured it."""
    on_gpu = [r for r in records if r.point.get("device") == "cuda"]
    found = [*_savings(ratios(of_kind(on_gpu, "measured"))), *_peaks(of_kind(on_gpu, "fig4_model"))]
    done = {finding.claim_id for finding in found}
    reason = "no measurement on a GPU with enough memory"
    return found + [Finding(name, None, reason) for name in ARTIFACT.claims if name not in done]


def _savings(points: Sequence[Saving]) -> Iterator[Finding]:
    """Yield the savings with eager attention, which forms the scores that the equations count."""
    if eager := [point.size_ratio for point in points if point.attention == "eager"]:
        reason = f"smallest of {len(eager)} measured pairs of steps, if the model grows in depth"
        yield Finding("A1-measured", min(eager), reason)
    for claim_id, (method, axis, value) in _WHERE.items():
        sizes = {name: getattr(LLAMA2_7B, name) for name in SIZES} | {axis: value}
        here = {
            point.attention: point
            for point in points
            if point.method == method and all(getattr(point, n) == v for n, v in sizes.items())
        }
        if not here:
            continue
        chosen = here.pop("eager" if "eager" in here else next(iter(here)))
        bp, mezo = (format_bytes(side["peak_bytes"]) for side in (chosen.bp, chosen.mezo))
        reason = f"allocated by torch.cuda with {chosen.attention} attention: BP {bp}, MeZO {mezo}"
        others = {"SDPA" if name == "sdpa" else name: point.ratio for name, point in here.items()}
        yield Finding(claim_id, chosen.ratio, reason, others=others)


def _peaks(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the memory of the three set-ups of Fig. 4, with eager attention where it fits."""
    eager_first = sorted(records, key=lambda record: record.point["attention"] != "eager")
    seen: set[str] = set()
    for record in eager_first:
        model, attention = record.point["model"], record.point["attention"]
        if model in seen or "peak_bytes" not in record.metrics:
            continue
        seen.add(model)
        peak = record.metrics["peak_bytes"]
        reason = f"allocated by torch.cuda with {attention} attention"
        yield Finding(f"A8-{model}-measured", peak / GB, reason)
