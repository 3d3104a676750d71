"""The page's table of errors is that of the record and of today's formula."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from repro.planner.configurations import architecture
from repro.planner.families import find
from repro.planner.formula import estimate
from repro.planner.methods import METHODS

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


def test_the_formula_is_near_every_simulated_step(script: ModuleType) -> None:
    record = script.read_record()
    assert script.missing(record) == []
    assert len(script.MODELS) >= 10
    for point in record["points"]:
        config = find(point["model"]).config  # type: ignore[union-attr]
        formula = estimate(architecture(config), METHODS[point["method"]], script.SETTING).total
        assert formula == pytest.approx(point["total_bytes"], rel=0.02), point
