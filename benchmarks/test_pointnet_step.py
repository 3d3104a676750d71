"""Time of PointNet's steps on the on-device engine, beside PyTorch's and the machine's peak."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from repro.core.names import METHODS, MethodName
from repro.core.validation import CLOUD_POINTS
from repro.measurement.timing import Step, ratio
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.models.pointnet import pointnet
from repro.ondevice.floating import NativeElasticZO
from repro.training.task import partition

SIZE = 32
EPS, LR = 1e-2, 1e-4
PRODUCTS = CLOUD_POINTS * (3 * 64 + 2 * 64 * 64 + 64 * 128 + 128 * 1024) + 665_600
"""Of a forward pass of one cloud: of its points, and of 1024 x 512, 512 x 256 and 256 x 40."""


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return random clouds and labels."""
    generator = torch.Generator().manual_seed(0)
    clouds = torch.randn(SIZE, CLOUD_POINTS, 3, generator=generator)
    return clouds, torch.randint(40, (SIZE,), generator=generator)


def torch_step(method: MethodName) -> Step:
    """Return the suite's step by PyTorch."""
    clouds, labels = batch()
    model = pointnet()
    optimizer: Any = Backprop(model.parameters(), lr=LR)
    if method != "full_bp":
        optimizer = ElasticZO(model, partition("pointnet", method, model), lr=LR, eps=EPS)
    return lambda: optimizer.step(lambda: cross_entropy(model(clouds), labels))


def training(method: MethodName, threads: int = 1) -> NativeElasticZO:
    """Return the engine's training of the network."""
    model = pointnet()
    return NativeElasticZO(
        model,
        (CLOUD_POINTS, 3),
        partition("pointnet", method, model),
        lr=LR,
        eps=EPS,
        capacity=SIZE,
        threads=threads,
    )


def engine_step(method: MethodName, threads: int = 1) -> Step:
    """Return the engine's step."""
    clouds, labels = batch()
    native = training(method, threads)
    return lambda: native.step(clouds, labels)


def evaluation(threads: int) -> Step:
    """Return the engine's forward pass by running statistics."""
    clouds, _ = batch()
    native = training("full_zo", threads)
    return lambda: native.forward(clouds)


@pytest.mark.filterwarnings(
    "ignore::repro.methods.watch.PassesDifferWarning"
)  # the paper's batch norm
@pytest.mark.parametrize("threads", [1, 2])
def test_pointnet_on_the_engine_against_pytorch(
    benchmark: Any, timed: Any, engine: Any, threads: int
) -> None:
    """``ratios``: PyTorch over the engine, and shares of what all threads can multiply at most.

    That is what a loop of nothing else does before or after, on one thread, times the threads.
    """
    torch.set_num_threads(threads)
    before = engine.peak_f32("auto")
    methods: tuple[MethodName, ...] = ("full_zo", "full_bp")
    arms = {f"torch {method}": torch_step(method) for method in methods}
    arms |= {f"engine {method}": engine_step(method, threads) for method in methods}
    seconds = timed(arms | {"evaluation": evaluation(threads)}, turns=5, steps=1, warm_up=1)
    peak = max(before, engine.peak_f32("auto")) * threads
    benchmark.extra_info["ratios"] = {
        f"torch/engine {method}": ratio(seconds, f"torch {method}", f"engine {method}")
        for method in methods
    } | {
        f"{arm}, share of peak": passes * SIZE * PRODUCTS / min(seconds[arm]) / peak
        for arm, passes in {"engine full_zo": 2, "evaluation": 1}.items()
    }


@pytest.mark.usefixtures("engine")
def test_elasticzo_and_bp_against_full_zo_on_pointnet_in_the_engine(
    benchmark: Any, timed: Any
) -> None:
    """``ratios``: on one thread, the step of each row over that of Full ZO."""
    arms = {method: engine_step(method) for method in METHODS}
    seconds = timed(arms, turns=7, steps=2, warm_up=1)
    benchmark.extra_info["ratios"] = {
        f"{method}/full_zo": ratio(seconds, method, "full_zo") for method in METHODS[1:]
    }
