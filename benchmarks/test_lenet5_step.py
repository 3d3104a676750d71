"""Steps of LeNet-5: how much quicker than the plain loop, and ElasticZO beside Full ZO."""

import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.names import METHODS
from repro.measurement.timing import Step, in_turns, ratio
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.mezo import MeZO
from repro.methods.perturbation import perturb_
from repro.models.lenet5 import lenet5
from repro.training.partition import partition

EPS, LR = 1e-2, 1e-4


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random images and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(size, 1, 28, 28, generator=generator)
    return images, torch.randint(10, (size,), generator=generator)


def plain(size: int) -> Step:
    """Return the step as the papers' pseudocode reads: noise tensor by tensor, eager layers."""
    images, labels = batch(size)
    model = lenet5()
    model.pool1, model.pool2 = nn.MaxPool2d(2), nn.MaxPool2d(2)
    seeds = iter(range(1 << 30))

    def perturb(seed: int, scale: float) -> None:
        torch.manual_seed(seed)
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=scale)

    @torch.no_grad()
    def step() -> None:
        seed = next(seeds)
        perturb(seed, EPS)
        plus = cross_entropy(model(images), labels).item()
        perturb(seed, -2 * EPS)
        minus = cross_entropy(model(images), labels).item()
        perturb(seed, EPS - LR * (plus - minus) / (2 * EPS))

    return step


def mezo(size: int) -> Step:
    """Return the suite's step."""
    images, labels = batch(size)
    model = lenet5()
    optimizer = MeZO(model.parameters(), lr=LR, eps=EPS)
    return lambda: optimizer.step(lambda: cross_entropy(model(images), labels))


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
    """Return one perturbation of all weights."""
    weights = list(lenet5().parameters())
    return lambda: perturb_(weights, 0, 0.0)


def timed(benchmark: Any, arms: dict[str, Step]) -> dict[str, list[float]]:
    """Run the arms in turns and keep the median of each, in seconds."""
    found: dict[str, list[float]] = {}
    run: Callable[[], None] = lambda: found.update(in_turns(arms, turns=15))  # noqa: E731
    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["seconds"] = {n: statistics.median(s) for n, s in found.items()}
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [32, 256])
def test_mezo_beside_the_plain_loop(benchmark: Any, size: int, threads: int) -> None:
    """``ratios``: plain over ours; what limits ours now, as shares of its step."""
    torch.set_num_threads(threads)
    arms = {"plain": plain(size), "mezo": mezo(size), "forward": forward(size), "noise": noise()}
    seconds = timed(benchmark, arms)
    benchmark.extra_info["ratios"] = {
        "plain/mezo": ratio(seconds, "plain", "mezo"),
        "two forwards/mezo": 2 * ratio(seconds, "forward", "mezo"),
        "three perturbations/mezo": 3 * ratio(seconds, "noise", "mezo"),
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_the_tables_beside_full_zo(benchmark: Any, threads: int) -> None:
    """``ratios``: the step of each row over that of Full ZO, at B = 32."""
    torch.set_num_threads(threads)
    seconds = timed(benchmark, {method: row(method, 32) for method in METHODS})
    benchmark.extra_info["ratios"] = {
        f"{method}/full_zo": ratio(seconds, method, "full_zo") for method in METHODS[1:]
    }
