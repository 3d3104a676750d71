"""Time of LeNet-5's steps and epochs in integers and in float32, the arms taking turns."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from repro.core.names import Precision
from repro.data.batches import batches
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.sign import SignRule
from repro.integer.tensor import IntegerTensor
from repro.measurement.timing import Step, ratio
from repro.methods.elasticzo import ElasticZO
from repro.models.lenet5 import lenet5
from repro.training.build import build
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun, Settings

SIZES = (256,)
"""From scratch; at B = 32 integers are slower than float32 here (``results/elasticzo_fig7``)."""
PARTITIONS = {"full_zo": 12, "cls1": "fc2", "full_bp": 0}


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 images with the range of MNIST at the exponent -5, and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(-14, 91, (size, 1, 28, 28), generator=generator)
    return images.to(torch.int8), torch.randint(0, 10, (size,), generator=generator)


def integer_step(partition: str | int, sign: SignRule, size: int) -> Step:
    """Return a step of ElasticZO-INT8."""
    images, labels = batch(size)
    network = IntegerNetwork.random(lenet5(bias=False), seed=0)
    method = ElasticZOInt8(network, partition, sign=sign)
    return lambda: method.step(IntegerTensor(images, -5), labels)


def float_step(partition: str | int, size: int) -> Step:
    """Return a step of ElasticZO."""
    images, labels = batch(size)
    inputs = images.to(torch.float32) / 32
    torch.manual_seed(0)
    model = lenet5()
    method = ElasticZO(model, partition, lr=2e-3, eps=1e-2, clip=0.3)
    return lambda: method.step(lambda: cross_entropy(model(inputs), labels))


def epoch(precision: Precision, settings: Settings, items: int | None) -> Step:
    """Return the steps of an epoch on ``items`` images (by default all), as the artifacts train."""
    of = NetworkRun("mnist", precision, "full_zo", settings, epochs=1, seed=0, train_items=items)
    learner, split = build(of)
    order = torch.Generator().manual_seed(0)

    def run() -> None:
        learner.start_epoch(0)
        for inputs, labels in batches(
            split.train_inputs, split.train_labels, settings.batch, order
        ):
            learner.step((inputs, labels))

    return run


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_integer_step_against_float32_in_pytorch(
    benchmark: Any, timed: Any, partition: str, threads: int, size: int
) -> None:
    """``ratios``: a step in float32 over one in integers."""
    torch.set_num_threads(threads)
    where = PARTITIONS[partition]
    arms = {
        "fp32": float_step(where, size),
        "int8": integer_step(where, "float", size),
        "int8_star": integer_step(where, "integer", size),
    }
    seconds = timed(arms, turns=5)
    benchmark.extra_info["ratios"] = {
        "fp32/int8": ratio(seconds, "fp32", "int8"),
        "fp32/int8*": ratio(seconds, "fp32", "int8_star"),
    }


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_integer_epoch_against_float32_in_pytorch(
    benchmark: Any, timed: Any, threads: int, size: int
) -> None:
    """``ratios``: an epoch of Full ZO on MNIST, float32 over integers."""
    torch.set_num_threads(threads)
    items = None if benchmark.enabled else 4 * size
    arms = {
        "fp32": epoch("fp32", FloatSettings(lr=1e-3, clip=0.05, batch=size), items),
        "int8": epoch("int8", IntegerSettings(batch=size), items),
        "int8_star": epoch("int8_star", IntegerSettings(batch=size), items),
    }
    seconds = timed(arms, turns=3, steps=1, warm_up=0)
    benchmark.extra_info["ratios"] = {
        "fp32/int8": ratio(seconds, "fp32", "int8"),
        "fp32/int8*": ratio(seconds, "fp32", "int8_star"),
    }
