"""The table that is kept of a run of the benchmarks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "keep.py"
ENVIRONMENT = {"commit": "0123456789", "cpu": "A chip", "versions": {"torch": "2.15.0"}}


def benchmark(name: str, **info: Any) -> dict[str, Any]:
    return {
        "name": f"test_{name}",
        "fullname": f"file::test_{name}",
        "extra_info": {"environment": ENVIRONMENT, **info},
    }


def keep(*arguments: object) -> int:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], check=False).returncode


def test_ratios_and_peaks_are_kept_and_times_are_not(tmp_path: Path) -> None:
    run = {
        "datetime": "2026-11-21T12:00:00",
        "benchmarks": [
            benchmark("steps[2]", ratios={"a/b": 1.625, "a/c": 0.994}, seconds={"a": 1.0}),
            benchmark("a_sweep", config={"points": 3}),
            benchmark("memory[a]", peak_bytes=3 * 2**19),
        ],
    }
    made, table = tmp_path / "run.json", tmp_path / "speed.md"
    made.write_text(json.dumps(run))
    assert keep(made, table) == 0
    text = table.read_text()
    assert "Made 2026-11-21 by commit 0123456 on A chip, PyTorch 2.15.0." in text
    assert text.endswith(
        "| memory[a] | peak | 1.50 MiB | 0123456 |\n"
        "| steps[2] | a/b | 1.62 | 0123456 |\n"
        "| steps[2] | a/c | 0.99 | 0123456 |\n"
    )


def test_a_later_run_replaces_what_it_has(tmp_path: Path) -> None:
    old = [benchmark("memory[a]", peak_bytes=2**20), benchmark("steps[2]", ratios={"a/b": 2.0})]
    new = [benchmark("steps[2]", ratios={"a/b": 1.0})]
    new[0]["extra_info"]["environment"] = {**ENVIRONMENT, "commit": "abcdefghij"}
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, day, made in zip(files, ("21", "22"), (old, new), strict=True):
        file.write_text(json.dumps({"datetime": f"2026-11-{day}T12:00:00", "benchmarks": made}))
    assert keep(*files, tmp_path / "speed.md") == 0
    text = (tmp_path / "speed.md").read_text()
    assert "2026-11-21 by commit 0123456" in text
    assert "2026-11-22 by commit abcdefg" in text
    assert text.endswith(
        "| memory[a] | peak | 1.00 MiB | 0123456 |\n| steps[2] | a/b | 1.00 | abcdefg |\n"
    )


def test_wrong_usage_is_told(tmp_path: Path) -> None:
    assert keep(tmp_path / "run.json") == 2
