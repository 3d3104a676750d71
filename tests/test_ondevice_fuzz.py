"""Whatever the engine is given, it computes what PyTorch does or says what is wrong."""

import copy
import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import ReproError, UsageError
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import DivergedError
from repro.models.pointnet import MaxOverPoints, PointBatchNorm
from repro.ondevice.build import load
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8

pytestmark = pytest.mark.usefixtures("engine")

fuzz = settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])

SIZES = st.integers(0, 7)
SHAPES = st.one_of(
    st.tuples(SIZES),
    st.tuples(SIZES, SIZES),
    st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 12)),
    st.tuples(SIZES, SIZES, SIZES, SIZES),
    st.just(()),
)
KINDS = st.sampled_from(
    ["linear", "linear", "conv", "conv", "norm", "relu", "pool", "flatten", "points"]
)
COUNTS = st.one_of(st.sampled_from([0, -1, 2**31, 2**63, 2**64, 2**70]), st.integers(-3, 40))
NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 1e-50, 1e300, math.inf, -math.inf, math.nan]), st.floats(-2, 2)
)


@st.composite
def structures(draw: st.DrawFn, *, bias: bool) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A network and the shape of its samples; most fit each other, some do not."""
    sample = draw(SHAPES)
    shape: tuple[int, ...] = sample
    layers: list[nn.Module] = []
    for kind in draw(st.lists(KINDS, max_size=6)):
        fits = draw(st.integers(0, 9)) > 0
        last = (shape[-1] if shape else 1) if fits else draw(SIZES)
        if kind == "linear":
            layers.append(nn.Linear(last, draw(SIZES), bias=bias))
            shape = (*shape[:-1], layers[-1].out_features)
        elif kind == "conv":
            channels = shape[0] if fits and len(shape) == 3 else draw(st.integers(1, 3))
            side, padding = draw(st.integers(1, 6)), draw(st.integers(0, 3))
            stride = draw(st.sampled_from([1, 1, 1, 2]))
            out = draw(st.integers(1, 7))
            layers.append(
                nn.Conv2d(max(channels, 1), out, side, stride, padding=padding, bias=bias)
            )
            if len(shape) == 3:
                shape = (out, *(max(n + 2 * padding - side + 1, 0) for n in shape[1:]))
        elif kind == "norm" and bias:  # none in integers
            of_images = len(shape) == 3
            features = max(shape[0 if of_images else -1] if shape else 1, 1)
            layers.append((nn.BatchNorm2d if of_images else PointBatchNorm)(features))
        elif kind in ("relu", "norm"):
            layers.append(nn.ReLU())
        elif kind == "pool":
            side = draw(st.integers(1, 4))
            layers.append(nn.MaxPool2d(side))
            if len(shape) == 3:
                shape = (shape[0], shape[1] // side, shape[2] // side)
        elif kind == "flatten":
            layers.append(nn.Flatten())
            shape = (math.prod(shape),)
        else:
            layers.append(MaxOverPoints())
            shape = shape[-1:]
    return nn.Sequential(*layers), sample


def machine(data: st.DataObject) -> dict[str, Any]:
    """Threads and an instruction set of this machine."""
    sets = st.sampled_from(load().instruction_sets())
    return {"threads": data.draw(st.integers(1, 3)), "instructions": data.draw(sets)}


@pytest.fixture(autouse=True)
def _empty_layers() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        yield


@fuzz
@given(made=structures(bias=True), data=st.data())
def test_a_float_network_is_computed_or_refused(made: Any, data: st.DataObject) -> None:
    model, shape = made
    size, partition = data.draw(st.integers(1, 20)), data.draw(st.integers(0, len(model)))
    inputs = torch.randn(size, *shape)
    reference = copy.deepcopy(model)
    try:
        native = NativeElasticZO(
            model, shape, partition, lr=0.1, eps=1e-2, capacity=size, **machine(data)
        )
    except UsageError:
        return
    expected = reference.eval()(inputs).detach()
    torch.testing.assert_close(native.forward(inputs), expected, rtol=1e-4, atol=1e-4)
    reference.train()
    labels = torch.randint(0, expected.shape[1], (size,))
    sgd = torch.optim.SGD(reference.parameters(), lr=0.1)
    for step in range(2):
        try:
            native.step(inputs, labels)
        except UsageError:  # one value for each channel of a batch norm
            with pytest.raises(ValueError, match="more than 1 value"):
                reference(inputs)
            return
        assert native.steps == step + 1
        if native.start == 0:
            sgd.zero_grad()
            cross_entropy(reference(inputs), labels).backward()
            sgd.step()
            for own, other in zip(model.parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(own, other, rtol=1e-2, atol=2e-3)


@fuzz
@given(made=structures(bias=False), data=st.data())
def test_an_integer_network_is_computed_or_refused(made: Any, data: st.DataObject) -> None:
    structure, shape = made
    size, partition = data.draw(st.integers(1, 20)), data.draw(st.integers(0, len(structure)))
    try:
        network = IntegerNetwork.random(structure, seed=0)
        native = NativeElasticZOInt8(
            network, structure, shape, partition, capacity=size, sign="integer",
            compact=data.draw(st.booleans()), **machine(data),
        )  # fmt: skip
    except ReproError:
        return
    by_pytorch = ElasticZOInt8(IntegerNetwork.random(structure, seed=0), partition, sign="integer")
    inputs = IntegerTensor(torch.randint(-127, 128, (size, *shape), dtype=torch.int8), -5)
    expected, found = network.forward(inputs), native.forward(inputs)
    assert torch.equal(found.values, expected.values)
    assert found.exponent == expected.exponent
    labels = torch.randint(0, expected.values.shape[1], (size,))
    for _ in range(2):
        native.step(inputs, labels)
        by_pytorch.step(inputs, labels)
        assert torch.equal(network.parameters, by_pytorch.network.parameters)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))


def small_integers() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4, bias=False)
    )


def batch(data: st.DataObject, dtypes: list[torch.dtype]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch that may be wrong in its sizes, its types, its labels or its numbers."""
    size = data.draw(st.integers(0, 9))
    fits = data.draw(st.booleans())
    shape = (size, 1, 4, 4) if fits else data.draw(SHAPES)
    inputs = (torch.rand(shape) * 9).to(data.draw(st.sampled_from(dtypes)))
    if inputs.dtype == torch.float32 and inputs.numel() and data.draw(st.booleans()):
        wrong = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, 3e38]))
        inputs.view(-1)[data.draw(st.integers(0, inputs.numel() - 1))] = wrong
    if data.draw(st.booleans()):
        inputs.requires_grad_(inputs.is_floating_point())
    classes = st.integers(0, 3) if data.draw(st.booleans()) else st.integers(-(2**63), 2**63 - 1)
    most = data.draw(st.sampled_from([size, size, size + 2]))
    values = data.draw(st.lists(classes, min_size=size, max_size=most))
    dtype = data.draw(st.sampled_from([torch.int64, torch.int64, torch.int64, torch.float32]))
    return inputs, torch.tensor(values, dtype=torch.int64).to(dtype)


@fuzz
@given(data=st.data())
def test_a_float_batch_is_trained_on_or_refused(data: st.DataObject) -> None:
    model = small()
    native = NativeElasticZO(model, (1, 4, 4), 3, lr=0.1, eps=1e-2, capacity=8)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    inputs, labels = batch(data, [torch.float32, torch.float32, torch.float64, torch.uint8])
    try:
        native.step(inputs, labels)
    except UsageError:
        assert native.steps == 0
        for own, expected in zip(model.parameters(), before, strict=True):
            assert torch.equal(own, expected)
    except DivergedError:
        assert native.steps == 0
        for own, expected in zip(model.parameters(), before, strict=True):
            torch.testing.assert_close(own, expected)  # moved and moved back
    else:
        assert inputs.isfinite().all()
        assert all(parameter.isfinite().all() for parameter in model.parameters())


@fuzz
@given(data=st.data())
def test_an_integer_batch_is_trained_on_or_refused(data: st.DataObject) -> None:
    network = IntegerNetwork.random(small_integers(), seed=0)
    native = NativeElasticZOInt8(network, small_integers(), (1, 4, 4), 3, capacity=8)
    before = network.parameters.clone()
    inputs, labels = batch(data, [torch.int8, torch.int8, torch.int16, torch.float32])
    try:
        native.step(IntegerTensor(inputs, data.draw(st.integers(-40, 40))), labels)
    except UsageError:
        assert native.steps == 0
        assert torch.equal(network.parameters, before)
    else:
        assert native.steps == 1


@fuzz
@given(chosen=st.fixed_dictionaries({}, optional={
    "lr": NUMBERS, "eps": NUMBERS, "clip": NUMBERS, "seed": st.integers(-(2**70), 2**70),
    "capacity": COUNTS, "threads": COUNTS, "partition": COUNTS,
    "activations": st.sampled_from(["plus", "mean", "both", ""]),
    "instructions": st.text(max_size=9),
}))  # fmt: skip
def test_float_settings_are_taken_or_refused(chosen: dict[str, Any]) -> None:
    values: dict[str, Any] = {"partition": 3, "lr": 0.1, "eps": 1e-2, "capacity": 8, **chosen}
    model = small()
    try:
        native = NativeElasticZO(model, (1, 4, 4), **values)
        native.step(torch.rand(1, 1, 4, 4), torch.tensor([3]))
    except ReproError:
        return
    assert native.steps == 1


@fuzz
@given(chosen=st.fixed_dictionaries({}, optional={
    "r_max": COUNTS, "p_zero": NUMBERS, "b_zo": COUNTS, "b_bp": COUNTS,
    "seed": st.integers(-(2**70), 2**70), "capacity": COUNTS, "threads": COUNTS,
    "partition": COUNTS, "sign": st.sampled_from(["float", "integer", "exact", ""]),
    "restore": st.sampled_from(["clip", "exact", "none"]),
    "activations": st.sampled_from(["plus", "minus", "mean"]),
}))  # fmt: skip
def test_integer_settings_are_taken_or_refused(chosen: dict[str, Any]) -> None:
    values: dict[str, Any] = {"partition": 3, "capacity": 8, **chosen}
    network = IntegerNetwork.random(small_integers(), seed=0)
    inputs = IntegerTensor(torch.ones(1, 1, 4, 4, dtype=torch.int8), -5)
    try:
        native = NativeElasticZOInt8(network, small_integers(), (1, 4, 4), **values)
        native.step(inputs, torch.tensor([3]))
    except ReproError:
        return
    assert native.steps == 1
