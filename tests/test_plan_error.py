"""The page's table of errors is that of the record and of today's formula."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from repro.planner.configurations import architecture
from repro.planner.families import find
from repro.planner.formula import estimate
from repro.planner.methods import TRAINING_METHODS

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "plan_error.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_error", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_record(script: ModuleType) -> None:
    table = script.table(script.read_record())
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.BEGIN + table + script.END in page


def test_a_page_without_marks_is_left_as_it_is(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "plan.md"
    monkeypatch.setattr(script, "PAGE", page)
    for text in ("no table", script.BEGIN + "no end", "no beginning" + script.END):
        page.write_text(text)
        with pytest.raises(SystemExit, match=r"plan\.md: no table, which begins with <!-- table"):
            script.write_table(script.read_record())
        assert page.read_text() == text


def test_each_point_keeps_the_versions_that_made_it(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = script.read_record()
    assert all(point["versions"]["torch"] for point in record["points"])
    added, kept = record["points"].pop(), record["points"][0]["versions"]
    now = {"torch": "another"}
    peak = SimpleNamespace(as_metrics=lambda: {"total_bytes": added["total_bytes"]})
    monkeypatch.setattr(script, "RECORD", tmp_path / "plan_error.json")
    monkeypatch.setattr("repro.measurement.environment.library_versions", lambda: now)
    monkeypatch.setattr("repro.memory.simulation.simulate", lambda *_: peak)
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)
    script.simulate_missing(record)
    written = script.read_record()["points"]
    assert (written[0]["versions"], written[-1]["versions"]) == (kept, now)
    assert script.missing({"points": written}) == []


def test_the_formula_is_near_every_simulated_step(script: ModuleType) -> None:
    record = script.read_record()
    assert script.missing(record) == []
    assert len(script.MODELS) >= 10
    for point in record["points"]:
        config = find(point["model"]).config  # type: ignore[union-attr]
        sizes = architecture(config)
        method = TRAINING_METHODS[point["method"]]
        formula = estimate(sizes, method, script.setting_of(sizes)).total
        assert formula == pytest.approx(point["total_bytes"], rel=0.01), point
