"""A MeZO step of SmolLM2-135M's architecture takes what a forward pass of its batch takes."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "test_language_model_step.py"


@cache
def peak(arm: str, dtype: str, restore: str) -> int:
    """Return the bytes beside the weights, by memray in a process of its own."""
    command = [sys.executable, str(BENCHMARK), arm, dtype, restore]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("arm", ["mezo", "mezo, engine's noise"])
@pytest.mark.parametrize(
    ("dtype", "restore"),
    [("float32", "rounded"), ("bfloat16", "rounded"), ("bfloat16", "exact")],
)
def test_a_step_takes_the_memory_of_a_forward_pass(arm: str, dtype: str, restore: str) -> None:
    ours = peak(arm, dtype, restore)
    assert ours <= 1.02 * peak("forward", dtype, restore)
    assert ours <= 0.1 * peak("published", dtype, restore)
