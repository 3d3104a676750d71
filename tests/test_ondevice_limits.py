"""The engine at the edges: narrow images, numbers that are not finite, threads, wrong arguments."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from repro.core.errors import UsageError
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.methods.noise import LatticeStep
from repro.methods.step_info import DivergedError
from repro.models.pointnet import MaxOverPoints
from repro.ondevice.build import load
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8
from repro.ondevice.low_rank import EngineLowRankNoise
from repro.ondevice.noise import EngineNoise, TorchNoiseOnEngine

pytestmark = pytest.mark.usefixtures("engine")


def narrow(kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, kernel, padding=kernel // 2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(15, 4, bias=False),
    )


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("kernel", [5, 7])
@pytest.mark.parametrize("shape", [(1, 5, 1), (1, 1, 5)])
def test_kernels_wider_than_the_image_are_pytorchs(
    shape: tuple[int, ...], kernel: int, compact: bool
) -> None:
    """Most taps of the kernel meet only padding, in the forward and in the backward pass."""
    structure = narrow(kernel)
    network, other = (IntegerNetwork.random(structure, seed=0) for _ in range(2))
    native = NativeElasticZOInt8(network, structure, shape, 0, capacity=3, compact=compact)
    by_pytorch = ElasticZOInt8(other, 0)
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-127, 128, (3, *shape), dtype=torch.int8, generator=generator)
    for _ in range(3):
        for one in (native, by_pytorch):
            one.step(IntegerTensor(values, -5), torch.tensor([0, 1, 3]))
        assert torch.equal(network.parameters, other.parameters)


@pytest.mark.parametrize("partition", [0, 5])
@pytest.mark.parametrize("place", range(4))
def test_a_nan_within_the_network_is_a_nan_of_the_loss(place: int, partition: int) -> None:
    """At any place of a pooling window, in layers with a backward pass and without."""
    model = nn.Sequential(
        nn.Conv2d(1, 2, 1, bias=False),
        nn.Conv2d(2, 1, 1, bias=False),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1, 2, bias=False),
    )
    with torch.no_grad():
        model[0].weight.fill_(1e30)
        model[1].weight.copy_(torch.tensor([1.0, -1.0]).view(1, 2, 1, 1))
    inputs = torch.zeros(1, 1, 2, 2)
    inputs.view(-1)[place] = 1e30  # infinity less infinity
    assert model(inputs).isnan().all()
    native = NativeElasticZO(model, (1, 2, 2), partition, lr=0.0, eps=1e-3, capacity=1)
    assert native.forward(inputs).isnan().all()
    with pytest.raises(DivergedError):
        native.step(inputs, torch.tensor([0]))


@pytest.mark.parametrize("partition", [0, 4])
@pytest.mark.parametrize("place", [0, 1, 5, 70, 149])
def test_a_nan_of_a_point_is_a_nan_of_the_cloud(place: int, partition: int) -> None:
    model = nn.Sequential(
        nn.Linear(1, 2, bias=False),
        nn.Linear(2, 1, bias=False),
        MaxOverPoints(),
        nn.Linear(1, 2, bias=False),
    )
    with torch.no_grad():
        model[0].weight.fill_(1e30)
        model[1].weight.copy_(torch.tensor([[1.0, -1.0]]))
    inputs = torch.zeros(1, 150, 1)
    inputs[0, place] = 1e30
    native = NativeElasticZO(model, (150, 1), partition, lr=0.0, eps=1e-3, capacity=1)
    assert native.forward(inputs).isnan().all()
    with pytest.raises(DivergedError):
        native.step(inputs, torch.tensor([0]))


@pytest.mark.parametrize("partition", [0, 2])
def test_an_update_that_overflows_is_not_made(partition: int) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight.fill_(0.5)
        model[2].weight.fill_(1e-30)  # so that the loss stays finite
    native = NativeElasticZO(model, (3,), partition, lr=1e6, eps=1e-3, capacity=2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(DivergedError):
        native.step(torch.full((2, 3), 1e34), torch.tensor([0, 0]))
    assert native.steps == 0
    for own, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(own, expected)


def test_two_threads_do_not_disturb_each_other() -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
    native = NativeElasticZO(model, (256,), 2, lr=0.1, eps=1e-3, capacity=64)
    batches = [torch.full((64, 256), float(n)) for n in range(8)]
    expected = [native.forward(inputs) for inputs in batches]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            found = [*threads.map(native.forward, batches)]
            assert all(map(torch.equal, found, expected))


def test_subnormal_float16_is_read_where_float32_flushes() -> None:
    bits = torch.arange(1, 1 << 10, dtype=torch.int16)
    weights = bits.view(torch.float16).clone()
    torch.set_flush_denormal(True)
    try:
        EngineNoise().add_([weights], 1, 0.0)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(weights.view(torch.int16), bits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_update", [True, False])
def test_a_nan_stays_one_on_every_instruction_set(dtype: torch.dtype, is_update: bool) -> None:
    step = LatticeStep(1e-3, 0, 0.5, is_update=is_update)
    for name in load().instruction_sets():
        weights = torch.full((40,), math.nan, dtype=dtype)
        EngineNoise(name).step_on_lattice_([weights], 1, step, None)
        assert weights.isnan().all(), name


def test_an_integer_network_whose_weights_were_replaced_is_refused() -> None:
    structure = narrow(3)
    network = IntegerNetwork.random(structure, seed=0)
    native = NativeElasticZOInt8(network, structure, (1, 5, 1), 0, capacity=1)
    inputs = IntegerTensor(torch.ones(1, 1, 5, 1, dtype=torch.int8), 0)
    network.parameters = network.parameters.clone()
    network.to("cpu")
    with pytest.raises(UsageError, match="were replaced"):
        native.step(inputs, torch.tensor([0]))
    with pytest.raises(UsageError, match="were replaced"):
        native.forward(inputs)


@pytest.mark.parametrize("exponent", [2**31 - 1, -(2**40)])
def test_exponents_that_no_int_holds_are_refused(exponent: int) -> None:
    structure = narrow(3)
    network = IntegerNetwork.random(structure, seed=0)
    native = NativeElasticZOInt8(network, structure, (1, 5, 1), 0, capacity=1)
    inputs = IntegerTensor(torch.ones(1, 1, 5, 1, dtype=torch.int8), exponent)
    with pytest.raises(UsageError, match="sum of the exponents"):
        native.forward(inputs)


def _trained(shape: Any) -> NativeElasticZO:
    model = nn.Sequential(nn.Linear(4, 2))
    return NativeElasticZO(model, shape, 0, lr=0.1, eps=1e-3, capacity=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: EngineNoise("foo"), "instructions = 'foo'"),
        (lambda: TorchNoiseOnEngine(instructions="foo"), "instructions = 'foo'"),
        (lambda: EngineLowRankNoise(instructions="foo"), "instructions = 'foo'"),
        (lambda: _trained(4), "samples of shape 4"),
        (lambda: _trained((4.0,)), r"samples of shape \(4.0,\)"),
        (
            lambda: _trained((4,)).step(torch.ones(1, 4), torch.ones(1, device="meta").long()),
            "on meta",
        ),
    ],
)
def test_wrong_arguments_are_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wrong()
