"""Steps of LeNet-5 beside the plain loop, in time and memory, and ElasticZO beside Full ZO."""

import subprocess
import sys
from itertools import count
from typing import Any

import pytest
import torch
from lenet5_steps import EPS, LR, batch, mezo, plain
from torch.nn.functional import cross_entropy

from repro.core.names import METHODS
from repro.measurement.timing import Step, ratio
from repro.memory import measured
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.torch_noise import TorchNoise
from repro.models.lenet5 import lenet5
from repro.training.task import partition


def peak_of_step(arm: str) -> int:
    """Return the bytes that a step takes beside the weights and the batch."""
    torch.set_num_threads(1)
    return measured.peak_of_step({"plain": plain, "mezo": mezo}[arm](32))


def row(method: Any, size: int) -> Step:
    """Return the step of one row of the paper's tables."""
    images, labels = batch(size)
    model = lenet5()
    optimizer: Any = Backprop(model.parameters(), lr=LR)
    if method != "full_bp":
        optimizer = ElasticZO(model, partition("lenet5", method, model), lr=LR, eps=EPS)
    return lambda: optimizer.step(lambda: cross_entropy(model(images), labels))


def forward(size: int) -> Step:
    """Return one forward pass without gradients."""
    images, labels = batch(size)
    model = lenet5()
    return torch.no_grad()(lambda: cross_entropy(model(images), labels).item())


def noise() -> Step:
    """Return the three perturbations of a step, which draws the noise once and keeps it."""
    weights = list(lenet5().parameters())
    kept = TorchNoise()
    seeds = count()

    def perturb() -> None:
        seed = next(seeds)
        for _ in range(3):
            kept.add_(weights, seed, 0.0)

    return perturb


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [32, 256])
def test_mezo_against_the_plain_loop(benchmark: Any, timed: Any, size: int, threads: int) -> None:
    """``ratios``: plain over ours; what limits ours now, as shares of its step."""
    torch.set_num_threads(threads)
    arms = {"plain": plain(size), "mezo": mezo(size), "forward": forward(size), "noise": noise()}
    seconds = timed(arms, turns=15)
    benchmark.extra_info["ratios"] = {
        "plain/mezo": ratio(seconds, "plain", "mezo"),
        "two forwards/mezo": 2 * ratio(seconds, "forward", "mezo"),
        "three perturbations/mezo": ratio(seconds, "noise", "mezo"),
    }


@pytest.mark.parametrize("arm", ["plain", "mezo"])
def test_memory_of_a_step(benchmark: Any, arm: str) -> None:
    """``peak_bytes``: what the step takes beside its weights at B = 32, by memray."""

    def run() -> None:
        command = [sys.executable, __file__, arm]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        benchmark.extra_info["peak_bytes"] = int(done.stdout)

    benchmark.pedantic(run, rounds=1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [32, 256])
def test_elasticzo_and_bp_against_full_zo(
    benchmark: Any, timed: Any, size: int, threads: int
) -> None:
    """``ratios``: the step of each row over that of Full ZO."""
    torch.set_num_threads(threads)
    seconds = timed({method: row(method, size) for method in METHODS}, turns=45)
    benchmark.extra_info["ratios"] = {
        f"{method}/full_zo": ratio(seconds, method, "full_zo") for method in METHODS[1:]
    }


if __name__ == "__main__":
    sys.stdout.write(str(peak_of_step(sys.argv[1])))
