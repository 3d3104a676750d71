"""The lower bound against steps that attain it, every order of operations, and hand arithmetic."""

from functools import cache
from itertools import pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.names import NumberFormat
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.elasticzo import training_bytes
from repro.memory.layers import layer_table
from repro.memory.lower_bound import Program, lower_bound
from repro.memory.storages import StorageTracker
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet

LENET5 = layer_table(lenet5(), (1, 28, 28))
INTEGERS = layer_table(lenet5(bias=False), (1, 28, 28))
POINTNET = layer_table(pointnet(), (1024, 3))


@pytest.mark.parametrize("batch", [1, 32, 256])
def test_full_zo_of_lenet5_peaks_at_the_first_pooling(batch: int) -> None:
    found = lower_bound(LENET5, 12, batch)
    assert found.parameters == 4 * 107_786
    assert found.input == 4 * batch * 784
    assert found.activations == 4 * batch * (4704 + 1176)
    assert found.total == found.parameters + found.input + found.activations


def test_full_zo_in_integers_peaks_where_the_first_accumulator_is_narrowed() -> None:
    found = lower_bound(INTEGERS, 12, 32, precision="int8")
    assert (found.int32_buffers, found.activations) == (4 * 32 * 4704, 32 * 4704)


def test_full_zo_of_pointnet_peaks_at_its_widest_layer() -> None:
    found = lower_bound(POINTNET, len(POINTNET), 32)
    assert found.activations == 4 * 32 * 1024 * (128 + 1024)  # batch norm and ReLU in place


def test_tail_gradients_wait_for_the_second_pass() -> None:
    full_zo, waiting = (lower_bound(LENET5, partition, 256) for partition in (12, "fc2"))
    assert waiting.total - full_zo.total == waiting.gradients == 4 * 11_014


@pytest.mark.parametrize("partition", [12, "fc3", "fc2", 0])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_bound_lies_below_the_formula(partition: int | str, precision: NumberFormat) -> None:
    table = LENET5 if precision == "fp32" else INTEGERS
    bound = lower_bound(table, partition, 32, precision=precision)
    formula = training_bytes(table, partition, 32, precision=precision)
    assert bound.total - bound.input < formula.total


def meta(*shape: int) -> Tensor:
    return torch.empty(*shape, device="meta")


def lean_forward(model: nn.Sequential, x: Tensor) -> None:
    """Do a forward pass by torch's own operators, each input let go by the next; no kernel pools
    without indices, so there an output of the right size is made up."""
    for module in model:
        if isinstance(module, nn.MaxPool2d):
            x = meta(*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
        elif isinstance(module, nn.ReLU):
            x.relu_()
        else:
            x = module(x)


@pytest.mark.parametrize("batch", [8, 256])
def test_operators_of_torch_attain_full_zo(batch: int) -> None:
    """Tensors without data, under a tracker that knows nothing of layers."""
    model, images = lenet5().to("meta"), meta(batch, 1, 28, 28)
    tracker = StorageTracker(lambda _: "other")
    tracker.add([*model.parameters(), images], "parameters")
    with torch.no_grad(), tracker:
        lean_forward(model, images)
        lean_forward(model, images)
    assert tracker.peak().total == lower_bound(LENET5, 12, batch).total


class Ledger:
    """Memory by hand: +name takes it, -name gives it back."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.live: set[str] = set()
        self.peak = 0

    def book(self, entries: str) -> "Ledger":
        for entry in entries.split():
            sign, name = entry[0], entry[1:]
            (self.live.add if sign == "+" else self.live.remove)(name)
            self.peak = max(self.peak, sum(self.sizes[one] for one in self.live))
        return self


ACTIVATIONS = {
    "c1": 4704, "p1": 1176, "c2": 3136, "p2": 784, "f1": 120, "f2": 84, "f3": 10,
    "ef2": 84, "ef1": 120, "ep2": 784, "ec2": 3136, "ep1": 1176, "ec1": 4704,
}  # fmt: skip
GRADIENTS = {"g3": 850, "g2": 10_164, "g1": 94_200, "gc2": 2_416, "gc1": 156}
FORWARD = "+c1 +p1 +c2 +p2 +f1 +f2 +f3"  # the error of the logits replaces them: f3
BACKWARD = """
    +g3 +ef2 -f3 -g3 -f2
    +g2 +ef1 -ef2 -g2 -f1
    +g1 +ep2 -ef1 -g1
    +ec2 -ep2 -p2 -c2
    +gc2 +ep1 -ec2 -gc2
    +ec1 -ep1 -p1 -c1
    +gc1 -ec1 -gc1
"""


@pytest.mark.parametrize("batch", [1, 32, 256])
def test_full_bp_of_lenet5_by_hand(batch: int) -> None:
    sizes = {name: 4 * batch * size for name, size in ACTIVATIONS.items()}
    sizes |= {name: 4 * size for name, size in GRADIENTS.items()}
    ledger = Ledger(sizes).book(FORWARD).book(BACKWARD)
    assert not ledger.live
    assert ledger.peak + 4 * (107_786 + batch * 784) == lower_bound(LENET5, 0, batch).total


def test_a_reshape_at_the_end_changes_nothing() -> None:
    layers = [nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    bounds = [
        lower_bound(layer_table(nn.Sequential(*layers, *last), (1, 28, 28)), 0, 32)
        for last in ([], [nn.Flatten()], [nn.Identity()])
    ]
    assert bounds[1] == bounds[2] == bounds[0]


@pytest.mark.parametrize("batch", [1, 32])
def test_cls1_in_integers_by_hand(batch: int) -> None:
    """An accumulator has the name of what it is narrowed to, in capitals."""
    sizes = {name: batch * size for name, size in ACTIVATIONS.items()}
    sizes |= {"g3": 840, "g2": 10_080}
    sizes |= {name.upper(): 4 * size for name, size in sizes.items()}
    head = "+C1 +c1 -C1 +p1 -c1 +C2 -p1 +c2 -C2 +p2 -c2 +F1 -p2 +f1 -F1"
    tail = "+F2 +f2 -F2 +F3 +f3 -F3"
    back = "+G3 +g3 -G3 +EF2 -f3 +ef2 -EF2 -f2 +G2 -f1 -ef2 +g2 -G2"
    second = f"{head} +F2 -f1 +f2 -F2 +F3 -f2 +f3 -F3 -f3 -g3 -g2"
    ledger = Ledger(sizes).book(head).book(tail).book(back).book(second)
    assert not ledger.live
    found = lower_bound(INTEGERS, "fc2", batch, precision="int8").total
    assert ledger.peak + 107_550 + batch * 784 == found


def least_peak(widths: list[int], batch: int) -> int:
    """Return the least peak over every order of the operations, done layer by layer, of Full BP.

    Linear layers without biases: F reads y[i-1] and writes y[i]; the last y becomes the error; G
    reads y[i-1] and error i and writes a gradient; E reads error i and writes error i-1; U reads
    the gradient, after E has read the weight.
    """
    n = len(widths) - 1
    sizes = {f"y{i}": batch * widths[i] for i in range(1, n + 1)}
    sizes |= {f"e{i}": batch * widths[i] for i in range(1, n)}
    sizes |= {f"g{i}": widths[i - 1] * widths[i] for i in range(1, n + 1)}
    error = {i: f"e{i}" for i in range(1, n)} | {n: f"y{n}"}
    operations: dict[str, tuple[set[str], str, set[str]]] = {}  # reads, writes, comes after
    for i in range(1, n + 1):
        before = {f"y{i - 1}"} if i > 1 else set()
        operations[f"F{i}"] = (before, f"y{i}", {f"F{i - 1}"} if i > 1 else set())
        ready = {f"U{i + 1}"} if i < n else {f"F{n}"}
        operations[f"G{i}"] = (before | {error[i]}, f"g{i}", ready)
        operations[f"U{i}"] = ({f"g{i}"}, "", {f"G{i}"} | ({f"E{i}"} if i > 1 else set()))
        if i > 1:
            operations[f"E{i}"] = ({error[i]}, f"e{i - 1}", ready)
    names = list(operations)

    def live(done: frozenset[str]) -> set[str]:
        written = {operations[name][1] for name in done} - {""}
        wanted = {one for name in names if name not in done for one in operations[name][0]}
        return written & wanted

    @cache
    def least(done: frozenset[str]) -> int:
        if len(done) == len(names):
            return 0
        peaks = []
        for name in names:
            reads, writes, after = operations[name]
            if name not in done and after <= done:
                now = sum(sizes[one] for one in live(done) | reads | ({writes} - {""}))
                peaks.append(max(now, least(done | {name})))
        return min(peaks)

    return least(frozenset())


@settings(max_examples=30)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=4), st.integers(1, 20))
@example([5, 1, 20, 1], 3)
def test_no_order_within_the_layers_needs_less(widths: list[int], batch: int) -> None:
    layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(widths)]
    table = layer_table(nn.Sequential(*layers), (widths[0],))
    found = lower_bound(table, 0, batch)
    assert found.total - found.parameters - found.input == 4 * least_peak(widths, batch)


@given(st.lists(st.tuples(st.integers(1, 50), st.lists(st.integers(0, 9))), max_size=10))
def test_peak_of_a_program_is_that_of_its_moments(operations: list[tuple[int, list[int]]]) -> None:
    """Every moment looked at by itself: a buffer lives from its writing to its last reading."""
    program, written, lives = Program(), [], []
    for now, (size, reads) in enumerate(operations):
        read = [number for number in reads if number < len(written)]
        for number in read:
            lives[number][1] = now
        written.append(program.write("activations", size, [written[number] for number in read]))
        lives.append([now, now])
    alive = [
        sum(operations[n][0] for n, (first, last) in enumerate(lives) if first <= now <= last)
        for now in range(len(operations))
    ]
    assert program.peak().total == max(alive, default=0)


def test_layers_of_unknown_lifetimes_are_refused() -> None:
    table = layer_table(nn.Sequential(nn.Linear(3, 5), nn.GELU()), (3,))
    with pytest.raises(
        UsageError, match="layer 1: there is no memory rule for its kind in fp32, only for"
    ):
        lower_bound(table, 0, 1)
    with pytest.raises(UsageError, match="layer bn1: there is no memory rule for its kind in int8"):
        lower_bound(POINTNET, 0, 1, precision="int8")
    with pytest.raises(UsageError, match="batch size B = 0"):
        lower_bound(LENET5, 0, 0)
    with pytest.raises(UsageError, match="there are none"):
        lower_bound((), 0, 1)


def test_a_batch_norm_keeps_its_input_with_and_without_weights() -> None:
    def bound(*, affine: bool) -> MemoryBreakdown:
        layers = [nn.Linear(8, 64), nn.BatchNorm1d(64, affine=affine), nn.ReLU(), nn.Linear(64, 3)]
        return lower_bound(layer_table(nn.Sequential(*layers), (8,)), 0, 1000)

    with_weights, without = bound(affine=True), bound(affine=False)
    assert without.activations == with_weights.activations
    assert without.errors == with_weights.errors
