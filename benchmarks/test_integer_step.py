"""Time of a training step of LeNet-5 in integers and in float32, the arms taking turns."""

from statistics import median
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.sign import SignRule
from repro.integer.tensor import IntegerTensor
from repro.measurement.timing import Step, in_turns, ratio
from repro.methods.elasticzo import ElasticZO
from repro.models.lenet5 import lenet5

BATCH = 256
PARTITIONS = {"full_zo": 12, "cls1": "fc2", "full_bp": 0}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return int8 images with the range of MNIST at the exponent -5, and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(-14, 91, (BATCH, 1, 28, 28), generator=generator)
    return images.to(torch.int8), torch.randint(0, 10, (BATCH,), generator=generator)


def integer_step(partition: str | int, sign: SignRule) -> Step:
    """Return a step of ElasticZO-INT8."""
    images, labels = batch()
    network = IntegerNetwork.random(lenet5(bias=False), seed=0)
    method = ElasticZOInt8(network, partition, sign=sign)
    return lambda: method.step(IntegerTensor(images, -5), labels)


def float_step(partition: str | int) -> Step:
    """Return a step of ElasticZO."""
    images, labels = batch()
    inputs = images.to(torch.float32) / 32
    torch.manual_seed(0)
    model = lenet5()
    method = ElasticZO(model, partition, lr=2e-3, eps=1e-2, clip=0.3)
    return lambda: method.step(lambda: cross_entropy(model(inputs), labels))


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("threads", [1, 2])
def test_integer_step_beside_float32(benchmark: Any, partition: str, threads: int) -> None:
    """Seconds of each arm and the ratios to float32, turn by turn, in ``extra_info``."""
    torch.set_num_threads(threads)
    where = PARTITIONS[partition]
    arms = {
        "fp32": float_step(where),
        "int8": integer_step(where, "float"),
        "int8_star": integer_step(where, "integer"),
    }
    seconds: dict[str, list[float]] = {}
    benchmark.pedantic(lambda: seconds.update(in_turns(arms, turns=5)), rounds=1)
    benchmark.extra_info |= {
        "threads": threads,
        "seconds": {name: median(values) for name, values in seconds.items()},
        "int8_speed_up": ratio(seconds, "fp32", "int8"),
        "int8_star_speed_up": ratio(seconds, "fp32", "int8_star"),
    }
