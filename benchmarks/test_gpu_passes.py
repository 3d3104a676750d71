"""Passes over weights on a GPU by the fused kernels, against multiplying the weights by 1."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from repro.measurement.timing import ratio
from repro.methods.noise import LatticeStep
from repro.methods.philox import PhiloxNoise, PhiloxSigns

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
TENSORS, SIZE = 64, 1 << 24
EPS = 1e-3
PASSES: dict[str, Callable[[PhiloxNoise, list[torch.Tensor]], None]] = {
    "rounded": lambda noise, weights: noise.add_(weights, 5, 1e-6),
    "exact, perturbation": lambda noise, weights: noise.step_on_lattice_(
        weights, 5, LatticeStep(EPS, 1, -1, is_update=False), None
    ),
    "exact, update": lambda noise, weights: noise.step_on_lattice_(
        weights, 5, LatticeStep(EPS, -1, 1e-6, is_update=True), None
    ),
}


def test_a_pass_on_a_gpu(benchmark: Any, timed: Any) -> None:
    """``ratios``: a pass over 2^30 bfloat16 weights over multiplying them by 1 in place."""
    weights = [torch.full((SIZE,), 0.02, dtype=torch.bfloat16).cuda() for _ in range(TENSORS)]

    def multiply() -> None:
        for part in weights:
            part.mul_(1)
        torch.cuda.synchronize()

    def step(noise: PhiloxNoise, name: str) -> Callable[[], None]:
        def run() -> None:
            PASSES[name](noise, weights)
            torch.cuda.synchronize()

        return run

    arms = {"multiply": multiply}
    for noise in (PhiloxNoise(), PhiloxSigns()):
        noise.prepare(weights, exact=True)
        arms |= {f"{noise.name}, {name}": step(noise, name) for name in PASSES}
    seconds = timed(arms, turns=6, steps=5, warm_up=1)
    benchmark.extra_info["ratios"] = {
        f"{name}/multiply": ratio(seconds, name, "multiply") for name in arms if name != "multiply"
    }
