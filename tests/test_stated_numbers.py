"""Numbers that the README and the notebooks' answers state in prose equal the records."""

import re
from pathlib import Path

import pytest

from repro.artifacts.shared.savings import ratios
from repro.measurement.records import of_kind, read_runs
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.notebooks import template
from repro.report.runs import current_runs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def stated(text: str, pattern: str) -> list[str]:
    """Return the groups of the pattern's only match; white space may be a line break."""
    (found,) = re.finditer(pattern.replace(" ", r"\s+"), text)
    return list(found.groups())


@pytest.fixture(scope="module")
def rows() -> dict[str, ClaimRow]:
    return {row.id: row for row in claim_rows(ROOT / "results")}


def accuracies(rows: dict[str, ClaimRow], dataset: str, *methods: str) -> list[str]:
    ours = [rows[f"B-T1-{dataset}-fp32-{method}"].ours for method in methods]
    return [f"{number:.1f}" for number in ours if number is not None]


def test_size_factors_are_those_of_the_simulated_steps() -> None:
    records = read_runs(current_runs(ROOT / "results", "mezo_fig3"))
    factors = {
        (p.context, p.method, p.attention): p.size_ratio
        for p in ratios(of_kind(records, "simulated"))
        if (p.layers, p.hidden) == (32, 4096)
    }
    two = [round(factors[4096, "bp", "eager"]), round(factors[8192, "bp", "eager"])]
    long = [round(factors[32768, "bp", kind]) for kind in ("eager", "sdpa")]
    checkpointed = max(factors[32768, "bp_checkpoint", kind] for kind in ("eager", "sdpa"))
    pattern = r"no checkpointing: (\d+) at 4,096 tokens(?:,| and) (\d+) at 8,192"
    notebook = template("mezo_fig3").read_text(encoding="utf-8")
    assert stated(README, pattern) == stated(notebook, pattern) == [str(n) for n in two]
    assert stated(notebook, r"from (\d+) to (\d+), and checkpointing lowers it to (\d+) or") == [
        *(str(n) for n in long),
        str(round(checkpointed)),
    ]


def test_accuracies_are_those_of_table_1(rows: dict[str, ClaimRow]) -> None:
    in_readme = stated(
        README,
        r"reaches ([\d.]+) % with the last two layers by BP \(\*Cls1\*\), ([\d.]+) % with all, and "
        r"([\d.]+) % with none",
    )
    methods = ("cls1", "full_bp", "full_zo")
    assert in_readme == accuracies(rows, "mnist", *methods)
    in_notebook = stated(
        template("elasticzo_table1").read_text(encoding="utf-8"),
        r"ends at ([\d.]+) % on MNIST \(Full BP: ([\d.]+) %, Full ZO: ([\d.]+) %\) and at "
        r"([\d.]+) % on Fashion-MNIST \(([\d.]+) %, ([\d.]+) %\)",
    )
    assert in_notebook == in_readme + accuracies(rows, "fashion_mnist", *methods)


def test_speed_ups_are_those_of_the_engine(rows: dict[str, ClaimRow]) -> None:
    speeds = [
        number
        for pick in ("smallest", "largest")
        for number in rows[f"B-F7-32-speed-up-{pick}"].values.values()
    ]
    ends = [f"{min(speeds):.1f}", f"{max(speeds):.1f}"]
    assert stated(README, r"INT8 steps are ([\d.]+) to ([\d.]+) times as fast as FP32") == ends
    notebook = template("elasticzo_fig7").read_text(encoding="utf-8")
    assert stated(notebook, r"INT8 is ([\d.]+) to ([\d.]+) times as fast as float32") == ends


def test_the_memory_of_a_step_is_that_of_the_benchmark() -> None:
    measured = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    peaks = [
        stated(measured, rf"\| {name}, float32, rounded \| ([\d.]+) \|")[0]
        for name in ("mezo", "published")
    ]
    ours = stated(README, r"a step needs (\d+) MiB beyond")
    published = stated(README, r"needs ([\d,]+) MiB \(")
    assert ours + published == [f"{float(peak):,.0f}" for peak in peaks]
