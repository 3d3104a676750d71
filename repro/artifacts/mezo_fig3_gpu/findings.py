"""Our values, measured on a GPU, for the statements on Fig. 3 and on the 17 GB of Fig. 4."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from repro.artifacts.mezo_fig3_gpu import ARTIFACT
from repro.artifacts.shared import savings
from repro.claims.verdict import Finding
from repro.core.units import GB, format_bytes
from repro.measurement.records import Record, of_kind


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact, without a value if no GPU measured it."""
    on_gpu = [r for r in records if r.point.get("device") == "cuda"]
    points = savings.pairs(of_kind(on_gpu, "measured"))
    found = [
        *savings.findings(points, "measured", _reason),
        *_peaks(of_kind(on_gpu, "fig4_model")),
    ]
    done = {finding.claim_id for finding in found}
    reason = "no measurement on a GPU with enough memory"
    return found + [Finding(name, None, reason) for name in ARTIFACT.claims if name not in done]


def _reason(eager: pd.Series) -> str:
    bp, mezo = format_bytes(eager.peak_bytes), format_bytes(eager.peak_bytes_over)
    return f"allocated by torch.cuda with eager attention: BP {bp}, MeZO {mezo}"


def _peaks(records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the memory of the set-ups of Fig. 4 that fitted the GPU."""
    peaks: dict[str, dict[str, float]] = {}
    for record in records:
        if "peak_bytes" in record.metrics:
            of_model = peaks.setdefault(record.point["model"], {})
            of_model[record.point["attention"]] = record.metrics["peak_bytes"] / GB
    for model, found in peaks.items():
        reason = "allocated by torch.cuda with eager attention"
        yield savings.by_kernel(f"A8-{model}-measured", found, reason)
