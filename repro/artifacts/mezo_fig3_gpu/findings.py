"""Our values, measured on a GPU, for the statements on Fig. 3 and on the 17 GB of Fig. 4."""

from collections.abc import Iterable, Iterator, Sequence

from repro.artifacts.mezo_fig3_gpu import ARTIFACT
from repro.artifacts.shared.savings import SIZES, Saving, by_kernel, ratios
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
    sizes = {
        attention: [point.size_ratio for point in points if point.attention == attention]
        for attention in dict.fromkeys(point.attention for point in points)
    }
    if sizes:
        pairs = len(sizes.get("eager", ()))
        reason = f"smallest of {pairs} measured pairs of steps, if the model grows in depth"
        yield by_kernel("A1-measured", {name: min(of) for name, of in sizes.items()}, reason)
    for claim_id, (method, axis, value) in _WHERE.items():
        shape = {name: getattr(LLAMA2_7B, name) for name in SIZES} | {axis: value}
        here = {
            point.attention: point
            for point in points
            if point.method == method and all(getattr(point, n) == v for n, v in shape.items())
        }
        if not here:
            continue
        reason = ""
        if eager := here.get("eager"):
            bp, mezo = (format_bytes(side["peak_bytes"]) for side in (eager.bp, eager.mezo))
            reason = f"allocated by torch.cuda with eager attention: BP {bp}, MeZO {mezo}"
        yield by_kernel(claim_id, {name: point.ratio for name, point in here.items()}, reason)


def _peaks(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the memory of the set-ups of Fig. 4 that fitted the GPU."""
    peaks: dict[str, dict[str, float]] = {}
    for record in records:
        if "peak_bytes" in record.metrics:
            of_model = peaks.setdefault(record.point["model"], {})
            of_model[record.point["attention"]] = record.metrics["peak_bytes"] / GB
    for model, found in peaks.items():
        reason = "allocated by torch.cuda with eager attention"
        yield by_kernel(f"A8-{model}-measured", found, reason)
