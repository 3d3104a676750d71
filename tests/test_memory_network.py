"""Steps of small networks: what is counted against arithmetic, and against what is measured."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from memray import AllocatorType

from repro.core.names import METHODS, MethodName, NumberFormat
from repro.measurement.isolation import run_isolated
from repro.memory.lower_bound import lower_bound
from repro.memory.measured_network import NetworkTask, balance, measure_network
from repro.memory.network_step import NetworkStep
from repro.memory.simulated_network import simulate_network
from repro.methods.mezo import MeZO
from repro.methods.watch import PassesDifferWarning

PARAMETERS = {"fp32": 4 * 107_786, "int8": 107_550}
TAIL = {"full_zo": 0, "cls2": 850, "cls1": 11_014, "full_bp": 107_786}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("method", METHODS)
def test_parts_that_are_known_are_counted_exactly(
    precision: NumberFormat, method: MethodName
) -> None:
    found = simulate_network(NetworkStep("lenet5", precision, method, 32))
    assert found.parameters == PARAMETERS[precision]
    assert found.input == 32 * 784 * (4 if precision == "fp32" else 1)
    assert found.optimizer_state == 0
    if method == "full_zo":
        assert found.gradients == found.errors == 0
    elif method != "full_bp" and precision == "fp32":
        assert found.gradients == 4 * TAIL[method]  # they wait for the second pass
    if precision == "fp32":
        assert found.int32_buffers == 0


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("method", METHODS)
def test_no_step_takes_less_than_the_bound(precision: NumberFormat, method: MethodName) -> None:
    step = NetworkStep("lenet5", precision, method, 64)
    layers = step.layers()
    bound = lower_bound(layers, step.partition(layers), 64, precision=precision)
    assert simulate_network(step).total >= bound.total


def test_full_bp_of_pointnet_holds_more_than_its_saved_activations() -> None:
    found = simulate_network(NetworkStep("pointnet", "fp32", "full_bp", 4, 32))
    assert found.parameters == 4 * 818_088
    saved = 4 * 4 * 32 * 2 * (64 + 64 + 64 + 128 + 1024)  # inputs of batch norms, outputs of ReLUs
    assert found.activations >= saved


@pytest.mark.memray
def test_without_onednn_the_allocator_gives_what_the_tensors_take() -> None:
    """Two ways to count that share no code agree to the byte.

    All but the state of PyTorch's generator, which the passes share and no operator makes.
    """
    tasks = [
        NetworkTask(NetworkStep("lenet5", "fp32", "cls1", 32), threads=1, onednn=False),
        NetworkTask(NetworkStep("lenet5", "int8", "full_zo", 32), threads=1, onednn=False),
    ]
    preload = ["repro.memory.measured_network"]
    for task, found in run_isolated(measure_network, tasks, workers=2, preload=preload):
        states = 2 * torch.get_rng_state().nbytes if task.step.precision == "fp32" else 0
        assert found["total_bytes"] == simulate_network(task.step).total + states
        assert PARAMETERS[task.step.precision] <= found["resident_bytes"] <= found["total_bytes"]
        assert 0 < found["objects_bytes"] < 200_000


@pytest.mark.memray
def test_a_small_batch_in_integers_takes_a_tenth_more_than_the_bound() -> None:
    """Backends' scratch included; the noise is drawn in pieces that do not count."""
    steps = [NetworkStep("lenet5", "int8", method, 32) for method in ("full_zo", "cls1")]
    tasks = [NetworkTask(step, threads=1, onednn=True) for step in steps]
    preload = ["repro.memory.measured_network"]
    for task, found in run_isolated(measure_network, tasks, workers=2, preload=preload):
        layers = task.step.layers()
        bound = lower_bound(layers, task.step.partition(layers), 32, precision="int8")
        assert bound.total <= found["total_bytes"] <= 1.1 * bound.total


@dataclass
class Allocation:
    allocator: AllocatorType
    address: int
    size: int = 0


def test_blocks_are_told_apart_by_how_they_were_asked_for() -> None:
    events = [
        Allocation(AllocatorType.POSIX_MEMALIGN, 1, 100),
        Allocation(AllocatorType.MALLOC, 2, 7),
        Allocation(AllocatorType.MMAP, 3, 1 << 20),
        Allocation(AllocatorType.POSIX_MEMALIGN, 4, 50),
        Allocation(AllocatorType.FREE, 1),
        Allocation(AllocatorType.FREE, 999),  # given before the tracker began
        Allocation(AllocatorType.MUNMAP, 3),
        Allocation(AllocatorType.POSIX_MEMALIGN, 1, 60),
        Allocation(AllocatorType.FREE, 2),
    ]
    records: Any = events
    assert balance(records) == {
        "total_bytes": 150,
        "resident_bytes": 110,
        "objects_bytes": 7,
        "both_bytes": 157,
    }


def test_a_step_of_pointnet_leaves_the_warnings_of_others_alone() -> None:
    step = NetworkStep("pointnet", "fp32", "full_zo", 2, 16)
    step.learner().step(step.make_batch())  # batch norm's statistics change in both passes
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    mezo = MeZO(model.parameters(), lr=1e-3, eps=1e-3)
    with pytest.raises(PassesDifferWarning):
        mezo.step(lambda: model(torch.ones(4, 3)).mean())


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_batches_are_what_learners_take(precision: NumberFormat) -> None:
    images, labels = NetworkStep("lenet5", precision, "full_zo", 3).make_batch()
    assert images.dtype == (torch.uint8 if precision == "fp32" else torch.int8)
    assert labels.shape == (3,)
