"""Integer networks: forward against float64, deferred shifts, partition, state, bad input."""

import pickle
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from repro.core.errors import UsageError
from repro.core.names import ShiftVersion
from repro.integer import matmul as matmul_module
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.layers import Weighted
from repro.integer.matmul import PATHS, Path, fastest_exact, is_exact
from repro.integer.network import IntegerNetwork, SavedTensors
from repro.integer.quantise import quantise
from repro.integer.rounding import magnitude_range
from repro.integer.structure import plain_window, without_bias_and_norm
from repro.integer.tensor import IntegerTensor
from repro.methods.parameters import split_at
from repro.models.lenet5 import lenet5
from repro.models.pointnet import MaxOverPoints, pointnet

VERSIONS = ("v1", "v2")


def lenet(policy: ShiftVersion = "v2", seed: int = 0) -> IntegerNetwork:
    return IntegerNetwork.random(lenet5(bias=False), seed=seed, policy=policy)


def images(batch: int = 3, seed: int = 0, low: int = -14) -> IntegerTensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(low, 91, (batch, 1, 28, 28), generator=generator)
    return IntegerTensor(values.to(torch.int8), -5)


def clouds(batch: int = 2, points: int = 20) -> IntegerTensor:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-128, 128, (batch, points, 3), generator=generator)
    return IntegerTensor(values.to(torch.int8), -7)


def round_half_away(a: torch.Tensor, k: int) -> torch.Tensor:
    return torch.trunc(a / 2**k + 0.5 * a.sign()).clamp(-127, 127)


def pseudo(a: torch.Tensor, k: int) -> torch.Tensor:
    q = torch.floor(a.abs() / 2**k)
    f = a.abs() - q * 2**k
    h = 2 ** (k // 2)
    hi, lo = torch.floor(f / h), f % h
    return (a.sign() * (q + (hi > (2 * lo if k % 2 else lo)))).clamp(-127, 127)


def by_float64(
    structure: nn.Sequential, network: IntegerNetwork, inputs: IntegerTensor
) -> tuple[torch.Tensor, int]:
    """The forward pass with PyTorch's own layers in float64, shifted after every layer."""
    x, e = inputs.values.double(), inputs.exponent
    v1 = network.policy.version == "v1"
    for name, module in structure.double().named_children():
        if name not in network.weighted:
            x = module(x)
            continue
        weight = network.weighted[name].weight
        with torch.no_grad():
            module.weight.copy_(weight.values)
            a = module(x)
        k = magnitude_range(int(a.abs().max())) - 7
        k = 2 if v1 and k == 1 else k
        x = a if k <= 0 else (pseudo if v1 else round_half_away)(a, k)
        x = torch.where(x == 128, -128.0, x)  # the cast of k <= 0
        e += weight.exponent + max(k, 0)
    return x, e


@pytest.mark.parametrize("policy", VERSIONS)
def test_lenet5_forward_is_that_of_float64(policy: ShiftVersion) -> None:
    network = lenet(policy)
    logits = network.forward(images())
    values, exponent = by_float64(lenet5(bias=False), network, images())
    assert torch.equal(logits.values.double(), values)
    assert logits.exponent == exponent
    assert logits.values.shape == (3, 10)


@pytest.mark.parametrize("policy", VERSIONS)
def test_pointnet_forward_is_that_of_float64(policy: ShiftVersion) -> None:
    structure = without_bias_and_norm(pointnet())
    network = IntegerNetwork.random(structure, seed=1, policy=policy)
    logits = network.forward(clouds())
    values, exponent = by_float64(structure, network, clouds())
    assert torch.equal(logits.values.double(), values)
    assert logits.exponent == exponent


def small(seed: int, policy: ShiftVersion, scale: int) -> IntegerNetwork:
    """A network whose accumulators may be so small that there is nothing to shift."""
    structure = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(1, 2, 3, padding=1, bias=False), relu=nn.ReLU(), pool=nn.MaxPool2d(2),
            flatten=nn.Flatten(), fc=nn.Linear(18, 3, bias=False),
        )
    )  # fmt: skip
    network = IntegerNetwork.random(structure, seed=seed, policy=policy)
    network.parameters.div_(scale, rounding_mode="trunc")
    return network


@given(
    st.integers(0, 99), st.sampled_from(VERSIONS), st.sampled_from([1, 30, 60, 120]),
    st.sampled_from([1, 4, 20, 127]),
)  # fmt: skip
@settings(max_examples=60)
def test_deferred_shifts_change_nothing(
    seed: int, policy: ShiftVersion, scale: int, top: int
) -> None:
    network = small(seed, policy, scale)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-top, top + 1, (2, 1, 7, 7), generator=generator).to(torch.int8)
    inputs = IntegerTensor(values, -5)
    fused, tape = network.forward(inputs), list[SavedTensors]()
    plain = network.forward(inputs, tape)
    assert torch.equal(fused.values, plain.values)
    assert fused.exponent == plain.exponent
    assert [record.layer for record in tape] == list(network.layers.values())
    assert all(record.y.dtype == torch.int8 for record in tape)


def test_relu_and_pooling_see_the_wrapped_cast() -> None:
    """128 has R = 7, is cast to -128, and then rectified to 0, as in NITI's code."""
    network = small(0, "v2", 1)
    network.parameters.zero_()
    network.layers["conv"].weight.values[:, 0, 1, 1] = 2
    values = torch.zeros(1, 1, 7, 7, dtype=torch.int8)
    values[0, 0, 0, 0] = 64
    tape: list[SavedTensors] = []
    network.forward(IntegerTensor(values, 0), tape)
    assert int(tape[0].y[0, 0, 0, 0]) == -128
    assert not tape[1].y.any()
    network.layers["fc"].weight.values.fill_(1)
    assert not network.forward(IntegerTensor(values, 0)).values.any()


@pytest.mark.parametrize("path", PATHS)
def test_forward_is_the_same_on_every_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_exact(path, torch.device("cpu")):
        pytest.skip(f"{path.__name__} is not exact here")
    pointwise = IntegerNetwork.random(without_bias_and_norm(pointnet()), seed=1)
    expected = lenet().forward(images(1)), pointwise.forward(clouds(1, 3))
    fastest_exact.cache_clear()
    monkeypatch.setattr(matmul_module, "PATHS", (path,))
    try:
        found = lenet().forward(images(1)), pointwise.forward(clouds(1, 3))
    finally:
        fastest_exact.cache_clear()
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.values, other.values)
        assert one.exponent == other.exponent


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
def test_cuda_is_the_cpu_bit_for_bit(version: ShiftVersion) -> None:
    host, device = lenet(version), lenet(version).to("cuda")
    inputs = images(64)
    tape_host, tape_device = list[SavedTensors](), list[SavedTensors]()
    logits = host.forward(inputs, tape_host)
    there = IntegerTensor(inputs.values.cuda(), inputs.exponent)
    found = device.forward(there, tape_device)
    assert torch.equal(found.values.cpu(), logits.values)
    error = torch.randint(-127, 128, (64, 10)).to(torch.int8)
    for (_, a), (_, b) in zip(
        host.backward(tape_host, error, 5),
        device.backward(tape_device, error.cuda(), 5),
        strict=True,
    ):
        assert torch.equal(a, b.cpu())


@pytest.mark.parametrize("policy", VERSIONS)
def test_backward_is_that_of_autograd_layer_by_layer(policy: ShiftVersion) -> None:
    """Every update against the float64 gradient of its layer, at the errors that NITI rounds."""
    structure, network = lenet5(bias=False).double(), lenet(policy)
    tape: list[SavedTensors] = []
    network.forward(images(4), tape)
    error = torch.randint(-127, 128, (4, 10), generator=torch.Generator().manual_seed(1)).to(
        torch.int8
    )
    records = list(tape)
    updates = network.backward(tape, error, 5)
    assert [layer for layer, _ in updates] == list(reversed(network.weighted.values()))
    assert [record.layer for record in tape] == []

    found = {id(layer): update for layer, update in updates}
    current = error.double()
    narrow = pseudo if policy == "v1" else round_half_away
    for record, (name, module) in zip(
        reversed(records), reversed(list(structure.named_children())), strict=True
    ):
        axes = (3, 1, 0, 2) if record.x.dim() == 4 else tuple(reversed(range(record.x.dim())))
        x = record.x.permute(axes).double().requires_grad_()
        if name in network.weighted:
            with torch.no_grad():
                module.weight.copy_(network.weighted[name].weight.values)
            module.weight.grad = None
        module(x).backward(current)
        assert x.grad is not None
        current = x.grad
        if isinstance(record.layer, Weighted):
            gradient = module.weight.grad
            k = magnitude_range(int(gradient.abs().max())) - 5
            assert torch.equal(found[id(record.layer)].double(), pseudo(gradient, k))
            k = magnitude_range(int(current.abs().max())) - 7
            assert k > 1
            current = narrow(current, k)


def test_layers_share_one_flat_tensor_of_the_papers_size() -> None:
    network = lenet()
    assert network.parameters.shape == (107_550,)
    assert network.sizes == [150, 2400, 94_080, 10_080, 840]
    network.parameters.fill_(3)
    assert all((layer.weight.values == 3).all() for layer in network.weighted.values())
    assert network.classes == 10


@pytest.mark.parametrize("partition", ["fc3", "fc2", 0, 3, 8, 11, 12])
def test_partition_is_that_of_the_floating_point_methods(partition: str | int) -> None:
    model = lenet5(bias=False)
    head, _ = split_at(model, partition)
    network = lenet()
    first = network.partition_index(partition)
    names = list(network.layers)[:first]
    sizes = [network.weighted[n].weight.values.numel() for n in names if n in network.weighted]
    assert sizes == [p.numel() for p in head]


def test_another_seed_gives_other_weights() -> None:
    one, same, other = lenet(seed=1), lenet(seed=1), lenet(seed=2)
    assert torch.equal(one.parameters, same.parameters)
    assert not torch.equal(one.parameters, other.parameters)


def test_state_goes_to_another_network_and_is_a_copy() -> None:
    one, other = lenet(seed=1), lenet(seed=2)
    state = one.state_dict()
    one.parameters.zero_()
    other.load_state_dict(state)
    expected = lenet(seed=1)
    assert torch.equal(other.forward(images()).values, expected.forward(images()).values)
    assert other.forward(images()).exponent == expected.forward(images()).exponent
    state["exponents"]["fc1"] += 3  # all weights of a layer eight times as large
    other.load_state_dict(state)
    assert torch.equal(other.forward(images()).values, expected.forward(images()).values)
    assert other.forward(images()).exponent == expected.forward(images()).exponent + 3


def test_a_pickled_network_is_trained_as_the_network() -> None:
    """Its layers' weights are views of ``parameters``, which pickle would make tensors of."""
    network = IntegerNetwork.random(lenet5(bias=False), seed=0)
    again = pickle.loads(pickle.dumps(network))  # noqa: S301
    assert torch.equal(again.parameters, network.parameters)
    shared = again.parameters.untyped_storage().data_ptr()
    for name, layer in again.weighted.items():
        assert layer.weight.values.untyped_storage().data_ptr() == shared
        assert layer.weight.exponent == network.weighted[name].weight.exponent
    inputs = quantise(torch.rand(8, 1, 28, 28, generator=torch.Generator().manual_seed(0)))
    labels = torch.arange(8)
    for one in (network, again):
        elastic = ElasticZOInt8(one, "fc3", seed=1)
        for _ in range(3):
            elastic.step(inputs, labels)
    assert torch.equal(again.parameters, network.parameters)


def test_foreign_states_are_refused_and_change_nothing() -> None:
    network, foreign = lenet(), small(0, "v2", 1)
    before = network.parameters.clone()
    with pytest.raises(UsageError, match=r"state of weights .*'conv': .*this network has .*'fc3'"):
        network.load_state_dict(foreign.state_dict())
    state = network.state_dict()
    state["parameters"] = state["parameters"][:-1]
    with pytest.raises(UsageError, match=f"this network has {len(before)}"):
        network.load_state_dict(state)
    state = network.state_dict()
    state["parameters"][5] = -128
    with pytest.raises(UsageError, match="from -127 to 127"):
        network.load_state_dict(state)
    for name, wrong in (("fc2", 0.5), ("fc3", None)):
        state = network.state_dict()
        state["parameters"].zero_()
        state["exponents"][name] = wrong
        with pytest.raises(UsageError, match=f"exponent of layer {name} = {wrong}"):
            network.load_state_dict(state)
    wide, deep = (
        IntegerNetwork.random(
            nn.Sequential(nn.Linear(i, j, bias=False), nn.Linear(j, k, bias=False)), seed=0
        )
        for i, j, k in ((12, 2, 6), (4, 6, 2))
    )
    with pytest.raises(UsageError, match=r"\(2, 12\).*\(6, 4\)"):  # as many weights
        deep.load_state_dict(wide.state_dict())
    assert torch.equal(network.parameters, before)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ([nn.Conv2d(1, 4, 1, bias=False), nn.Linear(4, 3, bias=False)], (1, 4, 4), "2 or 3; nn.Fl"),
        ([nn.Conv2d(1, 4, 3, bias=False)], (9,), "has 2 axes with the batch, must have 4"),
        ([nn.Conv2d(1, 4, 5, padding=1, bias=False)], (1, 2, 9), "2 x 9, must be at least 3 x 3"),
        ([nn.Linear(3, 4, bias=False), nn.MaxPool2d(2)], (5, 3), "has 3 axes .* must have 4"),
        ([nn.Conv2d(1, 4, 3, bias=False), nn.MaxPool2d(4)], (1, 5, 9), "at least 4 x 4"),
        ([nn.Linear(3, 4, bias=False), MaxOverPoints()], (3,), "has 2 axes .* must have 3"),
    ],
)
def test_inputs_that_a_layer_cannot_take_are_refused(
    layers: list[nn.Module], shape: tuple[int, ...], message: str
) -> None:
    """Also where sizes agree by chance, so that some product could be computed."""
    network = IntegerNetwork.random(nn.Sequential(*layers), seed=0)
    with pytest.raises(UsageError, match=message):
        network(IntegerTensor(torch.ones(2, *shape, dtype=torch.int8), 0))


def test_square_windows_may_be_pairs() -> None:
    of_pairs = nn.MaxPool2d((2, 2), stride=(2, 2), padding=(0, 0))
    assert plain_window(of_pairs) == plain_window(nn.MaxPool2d(2)) == 2


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(2, 2), "layer x has a bias"),
        (nn.BatchNorm2d(2), r"layer x \(BatchNorm2d\) has no integer form; .*Conv2d"),
        (nn.Conv2d(1, 1, 3, stride=2, bias=False), "stride 1"),
        (nn.Conv2d(1, 1, 3, padding=3, bias=False), "smaller than the kernel"),
        (nn.Conv2d(2, 2, 3, groups=2, bias=False), "one group"),
        (nn.Conv2d(1, 1, (3, 5), bias=False), "square kernel"),
        (nn.Conv2d(1, 1, 3, padding="same", bias=False), "zeros"),
        (nn.Conv2d(1, 1, 3, padding=(1, 2), bias=False), "equal padding"),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect", bias=False), "zeros"),
        (nn.MaxPool2d(3, stride=2), "stride = size"),
        (nn.MaxPool2d(2, ceil_mode=True), "ceil_mode=False"),
        (nn.MaxPool2d((2, 3)), "square windows"),
        (nn.MaxPool2d(0), "square windows"),
    ],
)
def test_layers_without_an_integer_form_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        IntegerNetwork.random(nn.Sequential(OrderedDict(x=module)), seed=0)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_layers_without_a_weight_are_refused() -> None:
    for module in (nn.Linear(0, 3, bias=False), nn.Conv2d(1, 0, 3, bias=False)):
        with pytest.raises(UsageError, match=r"layer 0: weights of shape \(.*0.*\): every size"):
            IntegerNetwork.random(nn.Sequential(module), seed=0)


def test_wrong_partitions_and_inputs_are_refused() -> None:
    network = lenet()
    names = "conv1, conv2, fc1, fc2, fc3"
    for wrong in ("fc9", "relu1"):
        with pytest.raises(UsageError, match=f"partition '{wrong}' names no layer.*: {names}"):
            network.partition_index(wrong)
    for number in (13, -1, True):
        with pytest.raises(UsageError, match=f"= {number}: must be a whole number from 0 to 12"):
            network.partition_index(number)
    with pytest.raises(UsageError, match="layer conv1: 3 input features, must be 1"):
        network.forward(IntegerTensor(torch.zeros(2, 3, 28, 28, dtype=torch.int8), 0))
    with pytest.raises(UsageError, match="layer fc1: 576 input features, must be 784"):
        network.forward(IntegerTensor(torch.zeros(2, 1, 24, 24, dtype=torch.int8), 0))
    with pytest.raises(UsageError, match=r"input of shape \(5,\): must be \[B, C, H, W\]"):
        network.forward(IntegerTensor(torch.zeros(5, dtype=torch.int8), 0))


def test_a_network_without_weights_is_refused() -> None:
    with pytest.raises(UsageError, match="no layer with parameters"):
        IntegerNetwork.random(nn.Sequential(nn.ReLU()), seed=0)


def patterns(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of four classes: a bright quarter each, with noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    shown = 0.5 * torch.rand(count, 1, 28, 28, generator=generator)
    for image, label in zip(shown, labels.tolist(), strict=True):
        image[:, 14 * (label // 2) :][:, :14, 14 * (label % 2) :][:, :, :14] += 0.4
    return shown, labels


def test_a_trained_float_network_is_rounded_and_fine_tuned_in_integers() -> None:
    torch.manual_seed(0)
    model = lenet5(bias=False, classes=4)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for seed in range(20):
        shown, labels = patterns(32, seed)
        adam.zero_grad()
        nn.functional.cross_entropy(model(shown), labels).backward()  # type: ignore[no-untyped-call]
        adam.step()
    shown, labels = patterns(200, 99)
    network, inputs = IntegerNetwork.quantised(model), quantise(shown)
    expected = model(shown).detach()
    logits = network(inputs)
    found = logits.values.float() * 2.0**logits.exponent
    # int8 weights and activations are exact to about 1 % each, over five layers
    assert torch.linalg.norm(found - expected) < 0.1 * torch.linalg.norm(expected)
    assert (found.argmax(1) == expected.argmax(1)).float().mean() > 0.97
    moved = IntegerTensor(inputs.values.flip(3), inputs.exponent)  # left and right are swapped
    tune = ElasticZOInt8(network, "fc2", r_max=7, seed=0)
    before = (network(moved).values.argmax(1) == labels).float().mean()
    for _ in range(60):
        tune.step(moved, labels)
    after = (network(moved).values.argmax(1) == labels).float().mean()
    assert before < 0.3
    assert after > 0.9


@pytest.mark.parametrize("wrong", [nn.Linear(4, 2), nn.Linear(4, 2, bias=False)])
def test_what_cannot_be_rounded_is_refused(wrong: nn.Linear) -> None:
    if wrong.bias is None:
        wrong.weight.data.fill_(float("nan"))
    with pytest.raises(UsageError, match=r"has a bias|only finite numbers"):
        IntegerNetwork.quantised(nn.Sequential(wrong))


def test_float_inputs_are_refused() -> None:
    shown, labels = patterns(4, 0)
    for call in (lenet().forward, lambda x: ElasticZOInt8(lenet(), "fc3").step(x, labels)):
        with pytest.raises(UsageError, match="inputs = Tensor: give an IntegerTensor"):
            call(shown)  # type: ignore[arg-type]
