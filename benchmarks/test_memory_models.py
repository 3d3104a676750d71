"""Time of the analytic sweep and of one simulated point."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from repro.artifacts.shared.decoder_steps import simulate_decoder_step
from repro.memory import analytic, equal_memory
from repro.memory.shape import LLAMA2_7B
from repro.memory.step import Method, StepSpec


def test_analytic_sweep(benchmark: Any) -> None:
    """The three formulas over 100 x 100 x 100 values of N, L and D."""
    varied = {
        "context": np.arange(1, 101)[:, None, None] * 320,
        "layers": np.arange(1, 101)[None, :, None],
        "hidden": np.arange(1, 101)[None, None, :] * 320,
    }
    benchmark.extra_info["config"] = {"points": 10**6}

    def sweep() -> None:
        s = analytic.sizes(**{**asdict(LLAMA2_7B), **varied})
        analytic.AS_PRINTED.bp_bytes(s)
        analytic.AS_PRINTED.bp_bytes(s, checkpointing=True)
        analytic.AS_PRINTED.mezo_bytes(s)

    benchmark(sweep)


def test_equal_memory_search(benchmark: Any) -> None:
    """The search behind claim A8."""
    grid = equal_memory.Grid()
    benchmark.extra_info["config"] = asdict(grid)
    benchmark(equal_memory.search_settings, grid)


@pytest.mark.parametrize("method", ["bp", "bp_checkpoint", "mezo"])
def test_simulated_point(benchmark: Any, method: Method) -> None:
    """One simulated step of Llama 2 7B's width with four layers."""
    spec = StepSpec(replace(LLAMA2_7B, layers=4), method, "eager", "float16")
    benchmark.extra_info["config"] = spec.as_dict()
    benchmark.pedantic(simulate_decoder_step, args=(spec,), warmup_rounds=1, rounds=5)
