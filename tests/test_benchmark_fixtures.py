"""What every benchmark keeps beside its time."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFTEST = Path(__file__).parents[1] / "benchmarks" / "conftest.py"
BENCHMARKS = """
import time
import torch

def test_first(timed):
    torch.set_num_threads(1)
    arms = {"quick": lambda: time.sleep(0.001), "slow": lambda: time.sleep(0.01)}
    timed(arms, turns=3, steps=1, warm_up=0)

def test_second(benchmark):
    benchmark(torch.get_num_threads)
"""


@pytest.mark.slow
def test_a_benchmark_keeps_its_arms_and_the_threads_that_it_ran_with(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_some.py").write_text(BENCHMARKS)
    command = [sys.executable, "-m", "pytest", "-q", "--benchmark-json=kept.json", "test_some.py"]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
    first, second = json.loads((tmp_path / "kept.json").read_text())["benchmarks"]
    arms: dict[str, Any] = first["extra_info"]["arms"]
    assert list(arms) == ["quick", "slow"]
    assert all(arm["median"] > 0 and arm["iqr"] >= 0 for arm in arms.values())
    threads = [one["extra_info"]["environment"]["threads"] for one in (first, second)]
    assert threads == [1, 2]
