"""The nightly comparison fails on regressions and on nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "compare.py"


def run(median: float, iqr: float = 0.0, peak: int | None = None, cpu: str = "a") -> dict[str, Any]:
    extra = {} if peak is None else {"peak_bytes": peak}
    stats = {"median": median, "iqr": iqr}
    return {
        "machine_info": {"cpu": {"brand_raw": cpu, "count": 2}},
        "benchmarks": [{"fullname": "test_step", "stats": stats, "extra_info": extra}],
    }


def turns(total: float, iqr: float = 0.0, **medians: float) -> dict[str, Any]:
    """A benchmark whose arms took turns: its own median is the time of all turns of all arms."""
    made = run(total)
    arms = {arm: {"median": median, "iqr": iqr} for arm, median in medians.items()}
    made["benchmarks"][0]["extra_info"]["arms"] = arms
    return made


@pytest.mark.parametrize(
    ("old", "new", "status", "output"),
    [
        (run(1.0), run(1.24), 0, "no regression"),
        (run(1.0), run(1.3), 1, "test_step: 1 s to 1.3 s, +30%"),
        (run(1.0, iqr=0.1), run(1.3), 0, "no regression"),
        (run(1.0), run(0.5), 0, "no regression"),
        (run(1.0, peak=1000), run(9.0, peak=1019), 0, "no regression"),
        (run(1.0, peak=1000), run(1.0, peak=1021), 1, "1000 to 1021 bytes"),
        (run(1.0), run(9.0, cpu="b"), 0, "not compared"),
        (run(1.0), {**run(1.0), "benchmarks": []}, 0, "no regression"),
        (turns(9, ours=1, plain=8), turns(9.5, ours=1.5, plain=8), 1, "test_step: ours 1 s to 1.5"),
        (turns(9, ours=1, plain=8), turns(18, ours=2.4, plain=16), 0, "no regression"),
        (turns(9, ours=1, plain=8), turns(18, ours=2.6, plain=16), 1, "ours 1 s to 2.6 s, +160%"),
        (turns(9, ours=1, plain=8), turns(8.5, ours=0.5, plain=8), 0, "no regression"),
        (turns(9, 0.2, ours=1, plain=8), turns(9, 0.1, ours=1.5, plain=8), 0, "no regression"),
        (turns(3, fp32=1, a=1, b=1), turns(4, fp32=1, a=1.5, b=1.4), 1, "; b 1 s to 1.4 s, +40%"),
        (turns(9, ours=1, plain=8), turns(90, ours=1, new=89), 0, "no regression"),
        (run(1.0), turns(1.3, ours=1), 1, "test_step: 1 s to 1.3 s"),
    ],
)
def test_two_nights(
    old: dict[str, Any], new: dict[str, Any], status: int, output: str, tmp_path: Path
) -> None:
    for name, content in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps(content))
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "old", tmp_path / "new"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert output in done.stdout


def test_a_processor_has_a_name_for_files(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps(run(1.0, cpu="AMD EPYC 9V74 80-Core (R)")))
    command = [sys.executable, SCRIPT, "--machine", file]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"AMD-EPYC-9V74-80-Core-R-\w+\n", done.stdout)


def test_wrong_usage() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, check=False)
    assert done.returncode == 2
