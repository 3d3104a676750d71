"""Statements on Fig. 3 and on the 17 GB of Fig. 4, from records that a GPU would make."""

from typing import Any

import pytest

from repro.artifacts.mezo_fig3_gpu import ARTIFACT, PAPER
from repro.artifacts.mezo_fig3_gpu.findings import findings
from repro.claims.index import CLAIMS
from repro.measurement.environment import capture
from repro.measurement.records import Record


def record(kind: str, peak: float | None, **point: Any) -> Record:
    shape = {"context": 2048, "layers": 32, "hidden": 4096, "dtype": "float16", "device": "cuda"}
    return Record(
        schema_version=1, artifact="mezo_fig3_gpu", profile="paper", config={}, seed=None,
        kind=kind, point={"attention": "eager", **shape, **point},
        metrics={"out_of_memory": True}
        if peak is None
        else {"peak_bytes": peak, "parameters_bytes": 4e9},
        utc="2026-01-02T03:04:05Z", environment=capture(),
    )  # fmt: skip


def steps(bp: float | None, mezo: float | None, method: str = "bp", **point: Any) -> list[Record]:
    return [
        record("measured", bp, method=method, **point),
        record("measured", mezo, method="mezo", **point),
    ]


def test_savings_are_quotients_of_peaks_at_the_published_place() -> None:
    made = [
        *steps(6e9, 5e9, layers=1),
        *steps(9e9, 5e9, layers=1, attention="sdpa"),
        *steps(8e9, 5e9, layers=2),
        *steps(12e9, 0.5e9, hidden=512),
        *steps(None, 40e9, context=32768),
        *steps(60e9, 20e9, "bp_checkpoint", context=32768, attention="sdpa"),
    ]
    found = {finding.claim_id: finding for finding in findings(made)}
    assert found["A1-measured"].ours == pytest.approx(1 + (6e9 - 5e9) / 4e9)
    assert found["A4-measured"].ours == pytest.approx(1.2)
    assert found["A4-measured"].others == {"sdpa": pytest.approx(1.8)}
    assert found["A7-measured"].ours == pytest.approx(24)
    assert found["A3-measured"].ours == pytest.approx(3)
    assert "sdpa" in found["A3-measured"].reason


def test_peaks_of_fig_4_are_in_gigabytes_and_eager_where_it_fits() -> None:
    made = [
        record("fig4_model", 25e9, model="gpt2-medium", attention="sdpa"),
        record("fig4_model", 30e9, model="gpt2-medium"),
        record("fig4_model", None, model="llama-13b"),
        record("fig4_model", 27e9, model="llama-13b", attention="sdpa"),
    ]
    found = {finding.claim_id: finding.ours for finding in findings(made)}
    assert found["A8-gpt2-medium-measured"] == pytest.approx(30)
    assert found["A8-llama-13b-measured"] == pytest.approx(27)
    assert found["A8-llama-7b-measured"] is None


def test_steps_on_the_host_are_no_measurement_of_a_gpu() -> None:
    found = findings(steps(6e9, 5e9, layers=1, device="cpu"))
    assert [finding.ours for finding in found] == [None] * len(ARTIFACT.claims)


def test_every_claim_is_a_basis_of_a_statement_of_fig_3() -> None:
    assert len(ARTIFACT.claims) == 7
    for claim_id in ARTIFACT.claims:
        claim = CLAIMS[claim_id]
        assert claim.basis == "measured"
        assert CLAIMS[claim.same_as].artifact == "mezo_fig3"
        assert CLAIMS[claim.same_as].published == claim.published
    assert {32768, 2048} <= set(PAPER.contexts)
