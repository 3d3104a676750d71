"""An epoch's data work must be below 5 % of an epoch of LeNet-5 by BP at batch size 32."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.data.batches import batches, normalise, to_tensors
from repro.data.images.labelled import PIXELS
from repro.models.lenet5 import lenet5

BATCH = 32
ITEMS = 60_000
"""Of an epoch; where benchmarks run once, untimed, it has fewer."""
LIMIT = 0.05


@pytest.fixture(scope="module")
def tensors(pytestconfig: pytest.Config) -> tuple[Tensor, Tensor]:
    """Random pixels in the shape of MNIST's training set: the work is the same."""
    items = 10 * BATCH if pytestconfig.getoption("benchmark_disable") else ITEMS
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (items, 28, 28), dtype=np.uint8)
    return to_tensors(images, random.integers(0, 10, items))


def epoch(images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffle, gather and normalise: all that is done to the data in an epoch."""
    mean, deviation = PIXELS["mnist"]
    for chosen, targets in batches(images, labels, BATCH, torch.Generator().manual_seed(0)):
        yield normalise(chosen, mean, deviation), targets


def test_data_work_of_an_epoch(benchmark: BenchmarkFixture, tensors: tuple[Tensor, Tensor]) -> None:
    """An epoch without a model."""
    benchmark.pedantic(lambda: sum(1 for _ in epoch(*tensors)), rounds=5, warmup_rounds=1)


def test_epoch_of_lenet5_by_backprop(
    benchmark: BenchmarkFixture, tensors: tuple[Tensor, Tensor]
) -> None:
    """An epoch with forward, backward and SGD; the data's share of it is held to the limit."""
    model = lenet5()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for images, labels in epoch(*tensors):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    data = min(_seconds_without_model(tensors) for _ in range(3))
    benchmark.pedantic(train, rounds=2)
    if benchmark.stats is not None:  # it is None where benchmarks run once, untimed
        share = data / benchmark.stats.stats.min
        benchmark.extra_info["data_share"] = share
        assert share < LIMIT, f"data work is {share:.1%} of an epoch, must be below {LIMIT:.0%}"


def _seconds_without_model(tensors: tuple[Tensor, Tensor]) -> float:
    start = time.perf_counter()
    for _ in epoch(*tensors):
        pass
    return time.perf_counter() - start
