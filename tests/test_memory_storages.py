"""The storage tracker against sizes counted by hand and against PyTorch's own tracker."""

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn.functional import cross_entropy

from repro.memory.breakdown import MemoryBreakdown
from repro.memory.simulated_network import Phases
from repro.memory.storages import StorageTracker
from repro.models.lenet5 import lenet5


def test_a_peak_is_what_was_alive_together() -> None:
    with StorageTracker(lambda _: "activations") as tracker:
        first = torch.empty(10)
        second = first + 1
        del first
        third = second.view(2, 5) * 2  # a view has no storage of its own
        del second, third
        torch.empty(19)
    assert tracker.peak() == MemoryBreakdown(activations=2 * 10 * 4)


def test_a_new_step_forgets_the_peak_but_not_what_is_alive() -> None:
    weights, batch = torch.empty(3), torch.empty(5)
    tracker = StorageTracker(lambda _: "activations")
    tracker.add([weights], "parameters")
    tracker.pass_by(batch)
    with tracker:
        kept = batch * 2
        weights.add_(1)
        torch.empty(100)
        tracker.next_step()
        torch.empty(7)
    del kept
    assert tracker.peak() == MemoryBreakdown(parameters=12, activations=28, other=20)


def test_a_gradient_is_told_by_its_parameter() -> None:
    weight = torch.ones(4, 6, requires_grad=True)
    tracker = StorageTracker(lambda _: "errors", [weight])
    tracker.add([weight], "parameters")
    with tracker:
        (weight * 2).sum().backward()
        with torch.no_grad():
            weight.sub_(weight.grad)  # type: ignore[arg-type]
    assert tracker.peak().gradients == 4 * 24


def test_a_resized_storage_has_its_new_size() -> None:
    with StorageTracker(lambda _: "other") as tracker:
        grown = torch.empty(2)
        grown.resize_(9)
    assert tracker.peak().total == 36


def test_phases_nest_and_end_with_an_exception() -> None:
    class Layers:
        def outer(self) -> list[str]:
            return [phases.now, *self.inner(), phases.now]

        def inner(self) -> list[str]:
            return [phases.now]

        def fail(self) -> None:
            raise ArithmeticError

    phases, layers, seen = Phases(), Layers(), []
    phases.watch(layers, "outer", "activations", then=seen.append)
    phases.watch(layers, "inner", "errors")
    phases.watch(layers, "fail", "errors")
    assert layers.outer() == ["activations", "errors", "activations"]
    assert seen == [["activations", "errors", "activations"]]
    with pytest.raises(ArithmeticError):
        layers.fail()
    assert phases.now == "other"


def test_a_step_of_backpropagation_peaks_where_torch_s_tracker_says() -> None:
    peaks = []
    for ours in (True, False):
        torch.manual_seed(0)
        model = lenet5()
        images, labels = torch.rand(16, 1, 28, 28), torch.zeros(16, dtype=torch.long)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tracker = StorageTracker(lambda _: "other") if ours else MemTracker()  # type: ignore[no-untyped-call]
        standing = [*model.parameters(), images, labels]
        if isinstance(tracker, StorageTracker):
            tracker.add(standing, "parameters")
        else:
            tracker.track_external(model, images, labels)
        with tracker:
            cross_entropy(model(images), labels).backward()
            optimizer.step()
        if isinstance(tracker, StorageTracker):
            peaks.append(tracker.peak().total)
        else:
            peaks.append(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])
    assert peaks[0] == peaks[1]
