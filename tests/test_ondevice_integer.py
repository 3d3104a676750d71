"""The engine in integers: bit for bit what repro.integer does, on every instruction set."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import memray
import pytest
import torch
from torch import nn

from repro.core.errors import UsageError
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.memory.layers import layer_table
from repro.memory.lower_bound import lower_bound
from repro.models.lenet5 import lenet5
from repro.models.pointnet import MaxOverPoints
from repro.ondevice.integer import NativeElasticZOInt8

pytestmark = pytest.mark.usefixtures("engine")

IMAGE = (1, 28, 28)
PARTITIONS: dict[str, str | int] = {"Full ZO": 12, "Cls2": "fc3", "Cls1": "fc2", "Full BP": 0}
INSTRUCTIONS = ["amx", "avx512vnni", "avx512", "avxvnni", "avx2", "dotprod", "baseline"]


def batch(seed: int, size: int) -> tuple[IntegerTensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(-14, 91, (size, *IMAGE), generator=generator).to(torch.int8)
    return IntegerTensor(images, -5), torch.randint(0, 10, (size,), generator=generator)


def both(
    partition: str | int, *, seed: int = 0, native: Any = None, **settings: Any
) -> tuple[ElasticZOInt8, NativeElasticZOInt8]:
    structure = lenet5(bias=False)
    reference, network = (IntegerNetwork.random(structure, seed=seed) for _ in range(2))
    return (
        ElasticZOInt8(reference, partition, seed=seed, **settings),
        NativeElasticZOInt8(
            network, structure, IMAGE, partition, seed=seed, **settings, **(native or {})
        ),
    )


def assert_equal_training(
    reference: ElasticZOInt8, native: NativeElasticZOInt8, steps: int, sizes: tuple[int, ...]
) -> None:
    for step in range(steps):
        expected = reference.step(*batch(step, sizes[step % len(sizes)]))
        info = native.step(*batch(step, sizes[step % len(sizes)]))
        assert torch.equal(native.network.parameters, reference.network.parameters), step
        assert info.loss == pytest.approx(expected.loss, rel=1e-12)
        assert [e.projected_gradient for e in info.estimates] == [
            e.projected_gradient for e in expected.estimates
        ]
        assert native.restores == reference.restores


@pytest.mark.parametrize("instructions", [*INSTRUCTIONS, "compact"])
@pytest.mark.parametrize("sign", ["float", "integer"])
@pytest.mark.parametrize("method", PARTITIONS)
def test_weights_are_those_of_the_reference(
    engine: Any, method: str, sign: Any, instructions: str
) -> None:
    native_only: dict[str, Any] = {"capacity": 40, "instructions": instructions}
    if instructions == "compact":
        native_only = {"capacity": 40, "compact": True}
    elif instructions not in engine.instruction_sets():
        pytest.skip(f"this machine has no {instructions}")
    reference, native = both(PARTITIONS[method], sign=sign, native=native_only)
    assert_equal_training(reference, native, 4, (40, 17))


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["float", "integer"])
@pytest.mark.parametrize("method", PARTITIONS)
def test_weights_are_those_of_the_reference_for_200_steps(method: str, sign: Any) -> None:
    reference, native = both(PARTITIONS[method], sign=sign, seed=1, native={"threads": 2})
    reference.b_bp = native.b_bp = 3
    assert_equal_training(reference, native, 200, (64, 48))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("restore", ["clip", "exact"])
@pytest.mark.parametrize("activations", ["plus", "minus"])
def test_every_setting_means_the_same(restore: Any, activations: Any, compact: bool) -> None:
    settings = {"restore": restore, "activations": activations, "r_max": 127, "b_zo": 3}
    reference, native = both("fc2", seed=9, native={"compact": compact}, **settings)
    for p_zero, b_bp in ((0.0, 0), (0.9, 6)):
        reference.p_zero = native.p_zero = p_zero
        reference.b_bp = native.b_bp = b_bp
        assert_equal_training(reference, native, 2, (20,))
    assert native.restores.inexact > 0


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("method", ["Full ZO", "Full BP"])
def test_no_result_depends_on_the_number_of_threads(method: str, compact: bool) -> None:
    networks = []
    for threads in (1, 2, 3):
        _, native = both(PARTITIONS[method], native={"threads": threads, "compact": compact})
        for step in range(2):
            native.step(*batch(step, 37))
        networks.append(native.network.parameters.clone())
    assert torch.equal(networks[0], networks[1])
    assert torch.equal(networks[0], networks[2])


def test_a_fork_of_a_process_with_threads_goes_on_alone() -> None:
    """It has none of the threads that OpenMP would wait for."""
    code = """
import os
import torch
import test_ondevice_integer as t

torch.set_num_threads(1)
_, native = t.both(12, native={"threads": 2})
native.step(*t.batch(0, 32))
child = os.fork()
native.step(*t.batch(1, 32))
total = int(native.network.parameters.long().sum()) % 100
if child == 0:
    os._exit(total)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == total
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    subprocess.run(command, check=True, env=environment, timeout=120)


def test_a_run_goes_on_with_the_other_engine() -> None:
    reference, native = both("fc3", sign="integer")
    _, resumed = both("fc3", sign="integer", seed=5)
    for step in range(4):
        reference.step(*batch(step, 16))
    for step in range(2):
        native.step(*batch(step, 16))
    resumed.network.load_state_dict(native.network.state_dict())
    resumed.load_state_dict(native.state_dict())
    for step in range(2, 4):
        resumed.step(*batch(step, 16))
    assert torch.equal(resumed.network.parameters, reference.network.parameters)
    assert resumed.state_dict() == reference.state_dict()


def test_settings_may_change_between_steps() -> None:
    pair = both("fc3", sign="integer")
    for step, (p_zero, b_zo, b_bp) in enumerate([(0.33, 1, 5), (0.5, 5, 4), (0.9, 0, 3)]):
        for method in pair:
            method.p_zero, method.b_zo, method.b_bp = p_zero, b_zo, b_bp
            method.step(*batch(step, 16))
    reference, native = pair
    assert torch.equal(native.network.parameters, reference.network.parameters)
    assert native.state_dict() == reference.state_dict()


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("scale", [1, 8])
def test_a_watch_sees_the_passes_of_the_reference(partition: str, scale: int) -> None:
    """Weights an eighth as large leave most sums unshifted, so that many losses are equal."""
    seen: list[list[Any]] = [[], []]
    pair = both(PARTITIONS[partition], sign="integer", r_max=3)
    for method, passes in zip(pair, seen, strict=True):
        method.network.parameters.div_(scale, rounding_mode="trunc")
        method.watch = lambda *given, into=passes: into.append(given)
    for step in range(4):
        for method in pair:
            method.step(*batch(step, 21))
            method.forward(batch(9, 30)[0])  # which overwrites the engine's logits
    expected, found = seen
    assert len(found) == len(expected) == (0 if partition == "Full BP" else 4)
    for reference, passes in zip(expected, found, strict=True):
        for one, other in zip(reference[:2], passes[:2], strict=True):
            assert torch.equal(one.values, other.values)
            assert one.exponent == other.exponent
        assert torch.equal(reference[2], passes[2])


def test_logits_are_those_of_the_network_it_shares() -> None:
    _, native = both(12)
    inputs, _ = batch(3, 50)
    expected = native.network.forward(inputs)
    logits = native.forward(inputs)
    assert torch.equal(logits.values, expected.values)
    assert logits.exponent == expected.exponent


SHAPES = {
    "odd pooling": (
        nn.Sequential(
            nn.Conv2d(3, 5, 3, bias=False),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(5 * 3 * 2, 7, bias=False),
        ),
        (3, 9, 7),
    ),
    "no rectifier": (
        nn.Sequential(
            nn.Conv2d(2, 4, 4, padding=1, bias=False),
            nn.Conv2d(4, 9, 1, bias=False),
            nn.MaxPool2d(3),
            nn.Flatten(),
            nn.Linear(9, 6, bias=False),
        ),
        (2, 5, 6),
    ),
    "cloud": (
        nn.Sequential(
            nn.Linear(3, 10, bias=False),
            nn.ReLU(),
            nn.Linear(10, 21, bias=False),
            nn.ReLU(),
            MaxOverPoints(),
            nn.Linear(21, 5, bias=False),
        ),
        (13, 3),
    ),
    "features": (nn.Sequential(nn.Linear(11, 3, bias=False)), (11,)),
    "large enough for tiles": (
        nn.Sequential(
            nn.Conv2d(1, 17, 9, padding=3, bias=False),
            nn.ReLU(),
            nn.Conv2d(17, 19, 2, bias=False),
            nn.Conv2d(19, 8, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(72, 37, bias=False),
            nn.ReLU(),
            nn.Linear(37, 9, bias=False),
        ),
        (1, 9, 9),
    ),
    "signed features, not in fours": (
        nn.Sequential(
            nn.Linear(8, 7, bias=False), nn.Linear(7, 5, bias=False), nn.Linear(5, 3, bias=False)
        ),
        (8,),
    ),
}


@pytest.mark.parametrize(
    "machine", [{}, {"instructions": "baseline"}, {"compact": True, "threads": 2}]
)
@pytest.mark.parametrize("partition", [0, 1, 2, "all"])
@pytest.mark.parametrize("name", SHAPES)
def test_other_networks(name: str, partition: str | int, machine: dict[str, Any]) -> None:
    structure, shape = SHAPES[name]
    before = len(structure) if partition == "all" else min(int(partition), len(structure))
    reference, network = (IntegerNetwork.random(structure, seed=2) for _ in range(2))
    slow = ElasticZOInt8(reference, before, sign="integer")
    native = NativeElasticZOInt8(network, structure, shape, before, sign="integer", **machine)
    generator = torch.Generator().manual_seed(0)
    classes = network.classes
    for _ in range(3):
        values = torch.randint(-128, 128, (70, *shape), generator=generator).to(torch.int8)
        labels = torch.randint(0, classes, (70,), generator=generator)
        slow.step(IntegerTensor(values, -6), labels)
        native.step(IntegerTensor(values, -6), labels)
        assert torch.equal(network.parameters, reference.parameters)


@pytest.mark.parametrize("size", [3, 64, 257, 600])
def test_batches_of_any_size(engine: Any, size: int) -> None:
    """Gradients are summed in bursts of 256 samples."""
    structure = nn.Sequential(
        nn.Linear(9, 21, bias=False), nn.ReLU(), nn.Linear(21, 13, bias=False)
    )
    generator = torch.Generator().manual_seed(size)
    values = torch.randint(-128, 128, (size, 9), generator=generator).to(torch.int8)
    labels = torch.randint(0, 13, (size,), generator=generator)
    reference = IntegerNetwork.random(structure, seed=2)
    ElasticZOInt8(reference, 0, b_bp=6).step(IntegerTensor(values, -6), labels)
    for instructions in engine.instruction_sets():
        network = IntegerNetwork.random(structure, seed=2)
        native = NativeElasticZOInt8(
            network, structure, (9,), 0, b_bp=6, capacity=size, instructions=instructions
        )
        native.step(IntegerTensor(values, -6), labels)
        assert torch.equal(network.parameters, reference.parameters), instructions


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("largest", [1, 2, 4])
def test_small_sums_are_cast_and_128_wraps(largest: int, compact: bool) -> None:
    """Sums of at most 128 in magnitude are not shifted: +128 becomes -128 before any maximum."""
    structure = nn.Sequential(
        nn.Conv2d(1, 2, 2, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 3, bias=False),
    )
    reference, network = (IntegerNetwork.random(structure, seed=2) for _ in range(2))
    for one in (reference, network):
        one.parameters.zero_()
        one.parameters[:8] = torch.tensor([largest, 0, 0, 0, 0, -largest, 0, 0])
        one.parameters[8:] = torch.arange(-12, 12)
    values = torch.randint(-128, 1, (30, 1, 3, 3)).to(torch.int8)
    values[0] = -128 // largest
    values[1] = 128 // largest if largest > 1 else 127
    values.clamp_(-128 // largest, 127 if largest == 1 else 128 // largest)
    for partition in (4, 0):
        native = NativeElasticZOInt8(network, structure, (1, 3, 3), partition, compact=compact)
        expected = reference.forward(IntegerTensor(values, 0))
        logits = native.forward(IntegerTensor(values, 0))
        assert torch.equal(logits.values, expected.values)
        assert logits.exponent == expected.exponent


def test_weights_of_other_exponents_can_be_loaded() -> None:
    reference, native = both("fc2")
    state = IntegerNetwork.random(lenet5(bias=False), seed=1).state_dict()
    state["exponents"] = {name: n - 9 for n, name in enumerate(state["exponents"])}
    for each in (reference, native):
        each.network.load_state_dict(state)
    inputs, _ = batch(0, 20)
    expected, logits = reference.forward(inputs), native.forward(inputs)
    assert torch.equal(logits.values, expected.values)
    assert logits.exponent == expected.exponent
    assert_equal_training(reference, native, 3, (20,))


def test_what_does_not_fit_is_refused_and_nothing_moves() -> None:
    _, native = both("fc2", native={"capacity": 8})
    before = native.network.parameters.clone()
    inputs, labels = batch(0, 8)
    wrong = [
        (IntegerTensor(inputs.values[:, :, :27], -5), labels, "was made for"),
        (batch(0, 65)[0], batch(0, 65)[1], "from 1 to 64"),
        (inputs, labels[:7], "7 labels for 8 inputs"),
        (inputs, labels + 10, "label 1[0-9]: must be from 0 to 9"),
        (IntegerTensor(inputs.values[:0], -5), labels[:0], "from 1 to"),
        (inputs, labels.int(), "must be .B. of torch.int64"),
        (inputs, labels.view(-1, 1), "must be .B. of torch.int64"),
        (IntegerTensor(inputs.values[:, 0], -5), labels, "was made for"),
    ]
    for values, classes, message in wrong:
        with pytest.raises(UsageError, match=message):
            native.step(values, classes)
    native.p_zero = 1.0
    with pytest.raises(UsageError, match="p_zero"):
        native.step(inputs, labels)
    assert torch.equal(native.network.parameters, before)
    assert native.steps == 0


def test_refuses_a_batch_whose_gradient_may_leave_int32() -> None:
    structure = nn.Sequential(nn.Linear(1, 2, bias=False))
    network = IntegerNetwork.random(structure, seed=0)
    NativeElasticZOInt8(network, structure, (1,), 1, capacity=131_072)
    with pytest.raises(UsageError, match="131072 samples may overflow int32; at most 131071"):
        NativeElasticZOInt8(network, structure, (1,), 0, capacity=131_072)


def test_refuses_networks_that_it_has_no_kernels_for() -> None:
    structure = lenet5(bias=False)
    v1 = IntegerNetwork.random(structure, seed=0, policy="v1")
    with pytest.raises(UsageError, match="'v2' only"):
        NativeElasticZOInt8(v1, structure, IMAGE, 0)
    network = IntegerNetwork.random(structure, seed=0)
    with pytest.raises(UsageError, match="input features"):
        NativeElasticZOInt8(network, structure, (1, 32, 32), 0)
    cloud, shape = SHAPES["cloud"]
    with pytest.raises(
        UsageError, match=r"samples of shape \(0, 3\): must be a tuple of whole numbers above 0"
    ):
        NativeElasticZOInt8(IntegerNetwork.random(cloud, seed=0), cloud, (0, shape[1]), 0)
    without_relu = nn.Sequential(*(m for m in structure if not isinstance(m, nn.ReLU)))
    with pytest.raises(UsageError, match=r"structure's layers are .* the network's"):
        NativeElasticZOInt8(network, without_relu, IMAGE, 0)
    with pytest.raises(UsageError, match="instructions = 'mmx'"):
        NativeElasticZOInt8(network, structure, IMAGE, 0, instructions="mmx")


@pytest.mark.parametrize("method", PARTITIONS)
@pytest.mark.parametrize("size", [1, 16, 32, 256])
def test_a_compact_network_takes_little_more_than_the_bound(method: str, size: int) -> None:
    """The rest is choices of pooling, pieces of noise, and errors that the bound frees earlier."""
    partition = PARTITIONS[method]
    layers = layer_table(lenet5(bias=False), IMAGE)
    first = len(layers) if method == "Full ZO" else partition
    bound = lower_bound(layers, first, size, precision="int8").total
    _, native = both(partition, native={"capacity": size, "compact": True})
    assert native.arena_bytes <= 1.25 * bound


@pytest.mark.parametrize("compact", [False, True])
def test_training_allocates_the_arena_and_nothing_else(tmp_path: Path, compact: bool) -> None:
    """By memray: the blocks that the engine asks for while it is made and does two steps."""
    inputs, labels = batch(0, 32)
    both("fc2", native={"compact": compact})[1].step(inputs, labels)  # imports and threads
    with memray.Tracker(tmp_path / "engine.memray"):
        _, native = both("fc2", native={"capacity": 32, "compact": compact})
        for _ in range(2):
            native.step(inputs, labels)
    blocks = [
        record.size
        for record in memray.FileReader(tmp_path / "engine.memray").get_allocation_records()
        if record.allocator == memray.AllocatorType.ALIGNED_ALLOC
    ]
    assert blocks == [native.arena_bytes]


def test_the_arena_holds_the_tail_only_where_there_is_one() -> None:
    sizes = [both(partition)[1].arena_bytes for partition in PARTITIONS.values()]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] / 2


@pytest.mark.parametrize("instructions", ["auto", "baseline"])
def test_gradient_of_a_long_row_does_not_leave_int32(instructions: str) -> None:
    columns, samples = 8192, 64
    structure = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.Flatten(), nn.Linear(columns, 2, bias=False)
    )
    networks = [IntegerNetwork.random(structure, seed=0) for _ in range(2)]
    for network in networks:  # the largest products, all of one sign
        network.parameters[0] = 127
        network.parameters[1 : 1 + columns] = -127
        network.parameters[1 + columns :] = 127
    inputs = IntegerTensor(torch.full((samples, 1, 1, columns), 127, dtype=torch.int8), 0)
    labels = torch.zeros(samples, dtype=torch.int64)
    ElasticZOInt8(networks[0], 0).step(inputs, labels)
    native = NativeElasticZOInt8(
        networks[1], structure, (1, 1, columns), 0, capacity=samples, instructions=instructions
    )
    native.step(inputs, labels)
    assert torch.equal(networks[0].parameters, networks[1].parameters)


def test_error_that_may_leave_int32_is_refused() -> None:
    structure = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.Conv2d(1, 6000, 5, bias=False),
        nn.Conv2d(6000, 1, 1, bias=False), nn.Flatten(), nn.Linear(25, 2, bias=False),
    )  # fmt: skip
    network = IntegerNetwork.random(structure, seed=0)
    with pytest.raises(UsageError, match="layer 1: sums of 150000 products may overflow int32"):
        NativeElasticZOInt8(network, structure, (1, 9, 9), 0)
    NativeElasticZOInt8(network, structure, (1, 9, 9), 1)  # layer 1 passes no error on
