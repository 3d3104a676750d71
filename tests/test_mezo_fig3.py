"""The artifact end to end: configuration, run, resume, findings."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from repro.artifacts.mezo_fig3 import ARTIFACT, PAPER, QUICK, SMOKE, Config
from repro.artifacts.shared import subprocesses
from repro.claims.index import CLAIMS
from repro.claims.verdict import verdict
from repro.core.errors import ReproError, UsageError
from repro.harness import run_artifact
from repro.measurement.records import Record, of_kind, read_run
from repro.measurement.result_cache import ResultCache
from repro.memory.measured import MeasuredPeak

TINY = replace(
    SMOKE,
    parts=("equations", "simulated", "measured"),
    simulate_contexts=(),
    simulate_layers=(),
    measure_contexts=(16,),
    measure_layers=(),
    measure_context=16,
    measure_hidden=32,
    measure_heads=4,
    measure_vocabulary=64,
)
"""A few measured points of the smallest model, nothing simulated."""


MEASURED = MeasuredPeak(parameters=150_000, weights=160_000, step=90_000)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """A run whose measured peaks are made up."""
    directory = tmp_path_factory.mktemp("run")

    def made_up(_function: Any, tasks: Sequence[Any], **_: Any) -> Iterator[Any]:
        return ((task, MEASURED.as_metrics()) for task in tasks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE_DIR", str(directory / "cache"))
        patch.setattr(subprocesses, "run_isolated", made_up)
        return read_run(run_artifact(ARTIFACT, "smoke", TINY, directory))


def test_every_claim_has_a_finding(records: list[Record]) -> None:
    assert tuple(finding.claim_id for finding in _sorted(records)) == ARTIFACT.claims


def test_published_numbers_against_the_equations(records: list[Record]) -> None:
    ours = {finding.claim_id: finding.ours for finding in ARTIFACT.findings(records)}
    want = {
        "A1": 2.0, "A2": 29.88, "A2-orders": 409.72, "A3": 5.40, "A4": 1.49, "A14": 2.25,
        "A11": 0.7663, "A12": 14.54, "A16": 0.869, "A17": 9.29, "A18": 0.902, "A19": 3.681,
        "A20": 409.72,
        "A5": 4.245, "A5-asymptote": 4.375, "A6": 2.249, "A6-L100": 2.183, "A6-asymptote": 2.0,
        "A7": 23.78, "A7-checkpointed": 4.65, "A7-asymptote": 2.0, "A8": 0,
        "A8-gpt2-medium": 24.57, "A8-llama-7b": 45.99, "A8-llama-13b": 44.44,
    }  # fmt: skip
    for claim_id, value in want.items():
        found = ours[claim_id]
        assert found is not None
        assert math.isclose(found, value, abs_tol=0.0051), claim_id


def test_numbers_with_the_errors_of_the_paper_corrected(records: list[Record]) -> None:
    found = {f.claim_id: f for f in ARTIFACT.findings(records)}
    corrected = {"A2": 25.13, "A4": 1.214, "A5": 4.232, "A6": 2.2816, "A6-L100": 2.171}
    corrected |= {"A12": 1.005, "A16": 1.068, "A20": 25.13}
    for name, value in corrected.items():
        assert found[name].corrected == pytest.approx(value, abs=2e-3), name
        assert found[name].correction


def test_set_ups_of_fig_4_from_4_bit_to_32_bit_numbers(records: list[Record]) -> None:
    """Equations (2) and (3) term by term: not all of them have the factor b."""
    found = {f.claim_id: f for f in ARTIFACT.findings(records)}
    for name, L, D, H, V, live in (
        ("gpt2-medium", 24, 1024, 16, 50257, None),
        ("llama-7b", 32, 4096, 32, 32000, 0.41),
        ("llama-13b", 40, 5120, 40, 32000, 0.15),
    ):
        B, N = 8, 1024
        by_format = {}
        for b in (0.5, 1, 2, 4):
            A = B * L * N * D * (2 + 16 * b + (2 * b + 1) * N * H / D)
            weights = 12 * b * L * D**2 + 2 * b * V * D
            by_format[b] = (2 * weights + A if live is None else weights + live * A) / 1e9
        finding = found[f"A8-{name}"]
        assert finding.ours == pytest.approx(by_format[2], rel=1e-3)
        listed = re.findall(r"([\d.]+) GB at b = ([\d.]+)", finding.reason)
        told = {float(b): float(gigabytes) for gigabytes, b in listed}
        assert told == pytest.approx({b: by_format[b] for b in (0.5, 1, 4)}, abs=0.06)


def test_what_80_gigabytes_hold_by_equation_2(records: list[Record]) -> None:
    found = next(f for f in ARTIFACT.findings(records) if f.claim_id == "A17")
    b, D, V = 2, 4096, 32000
    N, B = 2048, 1
    layer = B * N * D * (2 + 16 * b + (2 * b + 1) * N * 32 / D)
    layers = (80e9 - 4 * b * V * D) / (24 * b * D**2 + layer)
    assert found.ours == pytest.approx((12 * layers * D**2 + 2 * V * D) / 1e9)
    assert found.plausible is not None
    assert found.plausible[0] < 3 < found.plausible[1]


def test_several_perturbations_are_measured_beside_one(tmp_path: Path) -> None:
    # large enough that a megabyte of the interpreter's own objects, as seen at times, is no
    # difference
    alone = replace(TINY, parts=("perturbations",), measure_hidden=512, measure_heads=8)
    records = read_run(run_artifact(ARTIFACT, "smoke", alone, tmp_path))
    points = [record.point["perturbations"] for record in records]
    assert points == [1, 5]
    found = {f.claim_id: f for f in ARTIFACT.findings(_of_the_paper(records))}
    one, five = (record.metrics["peak_bytes"] for record in records)
    assert found["A13"].ours == five / one
    assert verdict(CLAIMS["A13"], found["A13"]) in ("reproduced", "close")
    assert found["A4"].ours is None
    assert "--parts equations" in found["A4"].reason  # the way out


def _of_the_paper(records: list[Record]) -> list[Record]:
    import msgspec

    from repro.harness import config_dict

    config = config_dict(PAPER)
    return [msgspec.structs.replace(record, config=config) for record in records]


def test_a_changed_setting_gives_no_verdict(records: list[Record]) -> None:
    import msgspec

    moved = [msgspec.structs.replace(r, config=r.config | {"batch": 2}) for r in records]
    findings = ARTIFACT.findings(moved)
    assert {finding.ours for finding in findings} == {None}


def test_measured_points_carry_formula_and_effective_layers(records: list[Record]) -> None:
    measured = list(of_kind(records, "measured"))
    assert len(measured) == 4
    for record in measured:
        metrics = record.metrics
        assert metrics["peak_bytes"] == 160_000 + 90_000
        N, L, D, H, V, b = 16, 2, 32, 4, 64, 4
        layer = N * D * (2 + 16 * b + (2 * b + 1) * N * H // D)
        weights = b * (12 * L * D**2 + 2 * V * D)
        kept = {"bp": L, "bp_checkpoint": math.sqrt(L)}.get(record.point["method"])
        want = weights + layer if kept is None else 2 * weights + kept * layer
        assert metrics["formula_bytes"] == pytest.approx(want)
        above = 160_000 + 90_000 - 150_000
        assert metrics["effective_layers"] == pytest.approx(above / layer)
        if kept is not None:
            beyond = (above - 150_000) / layer
            assert metrics["effective_layers_beyond_gradients"] == pytest.approx(beyond)


def test_figures_draw_from_records_alone(records: list[Record]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    for draw in ARTIFACT.figures.values():
        for some in (records, [r for r in records if r.kind not in ("simulated", "measured")]):
            figure = draw(some)
            figure.draw_without_rendering()


def test_stored_points_are_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []

    def two_only(_function: Any, tasks: Any, **_: Any) -> Any:
        for number, task in enumerate(tasks):
            if number == 2:
                raise KeyboardInterrupt
            computed.append(task)
            yield task, MeasuredPeak(1, 1, 1).as_metrics()

    monkeypatch.setattr(subprocesses, "run_isolated", two_only)
    other = ResultCache("mezo_fig3", {"another": "run"})
    other.put({"n": 1}, {"peak_bytes": 1})
    with pytest.raises(KeyboardInterrupt):
        run_artifact(ARTIFACT, "smoke", TINY, tmp_path)
    assert list(tmp_path.rglob("*.jsonl")) == []  # nothing half-written
    run_artifact(ARTIFACT, "smoke", TINY, tmp_path)
    assert len(set(computed)) == len(computed) == 4
    assert list(other.directory.parent.iterdir()) == [other.directory]  # it keeps no point
    assert other.get({"n": 1})  # and leaves those of other runs alone


def test_a_point_that_fails_leaves_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        msg = "the process of this point died"
        raise ReproError(msg)
        yield

    monkeypatch.setattr(subprocesses, "run_isolated", fails)
    with pytest.raises(ReproError):
        run_artifact(ARTIFACT, "smoke", TINY, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_live_layers_is_recorded_with_its_finite_limits(tmp_path: Path) -> None:
    ideal = replace(TINY, live_layers=0, measure_contexts=(), measure_context=32)
    records = read_run(run_artifact(ARTIFACT, "smoke", ideal, tmp_path))
    limits = {r.point["axis"]: r.metrics for r in of_kind(records, "analytic")}
    assert "ratio_limit" not in limits["context"]
    assert limits["layers"]["ratio_limit"] == 4.375  # the same for any fixed L'
    assert records[0].profile == "custom"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "H = 3 do not divide the hidden dimension D = 4096"),
        ({"measure_hiddens": (24,)}, "head size D / H = 24 / 8 is odd"),
        ({"live_layers": 33}, "live layers L' = 33: must lie between 0 and"),
        ({"simulate_contexts": (0,)}, "simulate_contexts = 0"),
        ({"simulate_hiddens": (100,)}, "do not divide"),
        ({"measure_layers": (2, 0)}, "measure_layers = 0"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_runs(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        replace(QUICK, **change)


def test_the_defaults_are_the_paper_s_setting() -> None:
    shape = Config().paper_shape()
    assert (shape.context, shape.layers, shape.hidden) == (2048, 32, 4096)
    assert (shape.heads, shape.vocabulary, shape.batch) == (32, 32000, 1)
    assert (PAPER.bytes_per_parameter, PAPER.live_layers) == (2, 1)


def test_every_field_is_documented() -> None:
    import ast
    import inspect

    from repro.artifacts import mezo_fig3

    tree = ast.parse(inspect.getsource(mezo_fig3))
    (body,) = [n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Config"]
    documented = {
        node.target.id  # type: ignore[union-attr]
        for node, after in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
    assert documented == {field.name for field in fields(Config)}


def _sorted(records: list[Record]) -> list[Any]:
    order = {claim_id: number for number, claim_id in enumerate(ARTIFACT.claims)}
    return sorted(ARTIFACT.findings(records), key=lambda finding: order[finding.claim_id])
