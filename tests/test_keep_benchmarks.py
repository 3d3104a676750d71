"""The table that is kept of a run of the benchmarks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "keep.py"
ENVIRONMENT = {"commit": "0123456789", "cpu": "A chip", "versions": {"torch": "2.15.0"}}


def benchmark(name: str, params: dict[str, Any] | None = None, **info: Any) -> dict[str, Any]:
    case = f"[{'-'.join(map(str, params.values()))}]" if params else ""
    return {
        "name": f"test_{name}{case}",
        "fullname": f"benchmarks/test_file.py::test_{name}{case}",
        "params": params,
        "extra_info": {"environment": ENVIRONMENT, **info},
    }


def keep(*arguments: object) -> int:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], check=False).returncode


def test_ratios_and_peaks_are_kept_and_times_are_not(tmp_path: Path) -> None:
    ratios = {"a/b": 1.625, "a/c": 0.994}
    run = {
        "benchmarks": [
            benchmark("mezo_steps", {"size": 32, "threads": 1}, ratios=ratios, seconds={"a": 1.0}),
            benchmark("mezo_steps", {"size": 32, "threads": 2}, ratios={"a/b": 2.0}),
            benchmark("a_sweep", config={"points": 3}),
            benchmark("memory", {"arm": "full_zo"}, peak_bytes=3 * 2**19),
            benchmark("memory", {"arm": "full_bp"}, peak_bytes=2**20),
        ],
    }
    made, page = tmp_path / "run.json", tmp_path / "speed.md"
    made.write_text(json.dumps(run))
    assert keep(made, page) == 0
    sections = page.read_text().split("\n## ")[1:]
    by = "`test_file.py`; commit 0123456, A chip, PyTorch 2.15.0."
    assert sections == [
        f"Memory\n\n{by}\n\n"
        "|  | peak beyond the weights (MiB) |\n| --- | --: |\n"
        "| full zo | 1.50 |\n| full bp | 1.00 |\n",
        f"MeZO steps\n\n{by}\n\n"
        "|  | B = 32, 1 thread | B = 32, 2 threads |\n| --- | --: | --: |\n"
        "| a/b | 1.62 | 2.00 |\n| a/c | 0.99 |  |\n",
    ]


def test_a_later_run_replaces_what_it_has(tmp_path: Path) -> None:
    def steps(threads: int, value: float) -> dict[str, Any]:
        return benchmark("steps", {"threads": threads}, ratios={"a/b": value})

    old, new = [steps(1, 2.0), steps(2, 3.0)], [steps(1, 1.0)]
    new[0]["extra_info"]["environment"] = {**ENVIRONMENT, "commit": "abcdefghij"}
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, made in zip(files, (old, new), strict=True):
        file.write_text(json.dumps({"benchmarks": made}))
    assert keep(*files, tmp_path / "speed.md") == 0
    text = (tmp_path / "speed.md").read_text()
    assert "commit abcdefg and 0123456, A chip, PyTorch 2.15.0." in text
    assert text.endswith("| 1 thread | 1.00 |\n| 2 threads | 3.00 |\n")


def test_tables_of_other_processors_and_tests_are_kept(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"

    def run(cpu: str, name: str, value: float) -> None:
        made = benchmark(name, {"threads": 1}, ratios={"a/b": value, "a/c": 1.0})
        made["extra_info"]["environment"] = {**ENVIRONMENT, "cpu": cpu}
        (tmp_path / "run.json").write_text(json.dumps({"benchmarks": [made]}))
        assert keep(tmp_path / "run.json", page) == 0

    run("A chip", "steps", 1.0)
    run("B chip (model 3, 2 cores)", "steps", 2.0)
    run("A chip", "epochs", 3.0)
    page.write_text(page.read_text() + "\nA note.\n")
    before = page.read_text()
    run("A chip", "steps", 4.0)
    assert page.read_text() == before.replace("| a/b | 1.00 |", "| a/b | 4.00 |")


@pytest.mark.parametrize(
    "text", ["By hand.\n", 2 * "`test_file.py`; commit 0123456, A chip, PyTorch 2.15.0.\n"]
)
def test_a_page_that_would_lose_text_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    page = tmp_path / "speed.md"
    page.write_text(f"# Speed\n\n## Steps\n\n{text}")
    (tmp_path / "run.json").write_text('{"benchmarks": []}')
    assert keep(tmp_path / "run.json", page) == 1
    assert page.read_text().endswith(text)


def test_wrong_usage_is_told(tmp_path: Path) -> None:
    assert keep(tmp_path / "run.json") == 2


def test_the_summary_has_the_range_over_processors_and_settings(tmp_path: Path) -> None:
    def against_pytorch(cpu: str, threads: int, value: float) -> dict[str, Any]:
        made = benchmark(
            "engine_against_pytorch",
            {"threads": threads},
            ratios={"engine fp32/int8": value, "a/b": 9.0},
        )
        made["extra_info"]["environment"] = {**ENVIRONMENT, "cpu": cpu}
        return made

    made, page = tmp_path / "run.json", tmp_path / "speed.md"
    shown = [
        against_pytorch("A", 1, 2.94),
        against_pytorch("A", 2, 2.0),
        against_pytorch("B", 1, 4.76),
    ]
    made.write_text(json.dumps({"benchmarks": shown}))
    assert keep(made, page) == 0
    (line,) = [line for line in page.read_text().split("\n") if line.endswith("times as fast.")]
    assert line.endswith(": 2.0 to 4.8 times as fast.")
