"""What a GPU measured, as a basis of the statements on Fig. 3 and on the 17 GB of Fig. 4."""

from collections.abc import Iterable, Iterator, Sequence

from repro.artifacts.mezo_fig3_gpu import ARTIFACT
from repro.claims.verdict import Finding
from repro.core.names import ATTENTIONS
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind
from repro.memory.shape import LLAMA2_7B

_SIZES = ("context", "layers", "hidden")
_WHERE = {
    "A3-measured": ("bp_checkpoint", "context", 32768),
    "A4-measured": ("bp", "layers", 1),
    "A7-measured": ("bp", "hidden", 512),
}
"""Kind of BP, axis and place of each saving; the other sizes are Llama 2 7B's."""


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact, without a value if no GPU measured it."""
    on_gpu = [r for r in records if r.point.get("device") == "cuda"]
    found = [*_savings(of_kind(on_gpu, "measured")), *_peaks(of_kind(on_gpu, "fig4_model"))]
    done = {finding.claim_id for finding in found}
    reason = "not measured on a GPU, or the device was too small"
    return found + [Finding(name, None, reason) for name in ARTIFACT.claims if name not in done]


def _savings(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the savings by eager attention, which forms the scores that the equations count."""
    peaks = {
        tuple(record.point[name] for name in (*_SIZES, "attention", "method")): bytes_
        for record in records
        if (bytes_ := record.metrics.get("peak_bytes"))
    }
    for claim_id, (method, axis, value) in _WHERE.items():
        sizes = [value if name == axis else getattr(LLAMA2_7B, name) for name in _SIZES]
        pairs = {
            attention: (peaks[*sizes, attention, method], peaks[*sizes, attention, "mezo"])
            for attention in ATTENTIONS
            if {(*sizes, attention, method), (*sizes, attention, "mezo")} <= peaks.keys()
        }
        if not pairs:
            continue
        attention = "eager" if "eager" in pairs else next(iter(pairs))
        bp, mezo = pairs.pop(attention)
        reason = (
            f"torch.cuda's allocator, {attention} attention: BP {format_bytes(bp)}, MeZO "
            f"{format_bytes(mezo)}"
        )
        others = {str(name): pair[0] / pair[1] for name, pair in pairs.items()}
        yield Finding(claim_id, bp / mezo, reason, others=others)


def _peaks(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the memory of the three set-ups of Fig. 4, by eager attention where it fits."""
    eager_first = sorted(records, key=lambda record: record.point["attention"] != "eager")
    seen: set[str] = set()
    for record in eager_first:
        model, attention = record.point["model"], record.point["attention"]
        if model in seen or "peak_bytes" not in record.metrics:
            continue
        seen.add(model)
        peak = record.metrics["peak_bytes"]
        reason = f"torch.cuda's allocator, {attention} attention"
        yield Finding(f"A8-{model}-measured", peak / GB, reason)
