"""Simulate the memory of a small network's step, by kind of tensor.

Unlike steps of the decoders, these steps are small enough to be executed. No value has to be made
up, and integer steps, whose shifts depend on values, are counted in the same way.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repro.core.errors import ReproError
from repro.integer.network import IntegerNetwork
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.network_step import NetworkStep
from repro.memory.storages import StorageTracker
from repro.training.learners import FloatLearner, IntegerLearner


class Phases:
    """The current phase of the running code, as set by its caller."""

    def __init__(self) -> None:
        """Start in the phase ``other``."""
        self.now = "other"

    def watch(
        self,
        owner: object,
        name: str,
        phase: str,
        then: Callable[[Any], None] = lambda _: None,
    ) -> None:
        """Wrap the function ``name`` of the object ``owner`` so that it runs in ``phase``.

        ``then`` is called with its result.
        """
        function = getattr(owner, name)

        def inside(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of the function
            before, self.now = self.now, phase
            try:
                result = function(*args, **kwargs)
            finally:
                self.now = before
            then(result)
            return result

        setattr(owner, name, inside)


def simulate_network(step: NetworkStep) -> MemoryBreakdown:
    """Return the memory at the peak of a step, weights and input included.

    The second step is counted, since some buffers remain from the first. These count as ``other``,
    and so do noise, losses, indices, and statistics in float32.
    """
    learner = step.learner()
    inputs, labels = step.make_batch()
    if isinstance(learner, FloatLearner):
        tracker = _watched_floats(learner)
    elif isinstance(learner, IntegerLearner):
        tracker = _watched_integers(learner.method.network)
    else:
        msg = f"a step of {type(learner).__name__} cannot be simulated: its parts are not known"
        raise ReproError(msg)
    if inputs.dtype == torch.uint8:  # the learner converts them to its own input
        tracker.pass_by(inputs)
    else:
        tracker.add([inputs], "input")
    tracker.pass_by(labels)
    gc.collect()
    with tracker:
        learner.step((inputs, labels))
        tracker.next_step()
        learner.step((inputs, labels))
    return tracker.peak()


def _watched_floats(learner: FloatLearner) -> StorageTracker:
    phases = Phases()
    phases.watch(learner, "prepare", "input")
    phases.watch(learner, "loss", "activations")

    def part_of(tensor: Tensor) -> str:
        if tensor.dtype != torch.float32:
            return "other"
        # the number of the running backward pass, -1 outside of one
        backward = torch._C._current_graph_task_id() != -1
        return "errors" if backward else phases.now

    parameters = list(learner.model.parameters())
    tracker = StorageTracker(part_of, parameters)
    tracker.add(parameters, "parameters")
    tracker.add(list(learner.model.buffers()), "other")
    return tracker


def _watched_integers(network: IntegerNetwork) -> StorageTracker:
    phases = Phases()

    def part_of(tensor: Tensor) -> str:
        wide = tensor.dtype in (torch.int32, torch.int64) and phases.now != "other"
        return "int32_buffers" if wide else phases.now

    tracker = StorageTracker(part_of)
    tracker.add([network.parameters], "parameters")
    phases.watch(network, "forward", "activations")
    phases.watch(
        network,
        "backward",
        "errors",
        then=lambda updates: tracker.add([update for _, update in updates], "gradients"),
    )
    return tracker
