"""Measure the compiled engine's memory for a small network's training step.

When created, the engine allocates one aligned block, its arena, for weights, activations, the
tables of its kernels and all scratch memory. It computes those tables in blocks from ``malloc``,
which it frees before the first step. The interpreter's objects also come from ``malloc``, some ten
KiB. All of this counts here. Each point is measured in a fresh process, starting before the arena
is allocated, so that any further allocation of a step would show.
"""

import gc
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import memray
from torch import Tensor

from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.memory.measured_network import balance
from repro.memory.network_step import NetworkStep
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8

_EXPONENT = -7
"""Exponent of the integer images; like learning rate and eps, it does not affect memory."""


@dataclass(frozen=True)
class EngineTask:
    """One point to measure; picklable."""

    step: NetworkStep
    threads: int
    compact: bool
    """Whether the integer engine processes one sample at a time."""

    def as_dict(self) -> dict[str, Any]:
        """Return the task as plain values, for records and cache keys."""
        return self.step.as_dict() | {"threads": self.threads, "compact": self.compact}


def measure_engine(task: EngineTask) -> dict[str, int]:
    """Measure two training steps of ``task.step``; call it in a fresh process.

    Returns:
        Sizes in bytes. ``total_bytes`` is the peak from the creation of the engine on, including
        the first layer's input in float32 or int8. ``arena_bytes`` is the arena. ``tables_bytes``
        is the peak of blocks from ``malloc``: tables under computation and the interpreter's
        objects.

    Raises:
        EngineError: the engine is not built.
    """
    inputs, labels = task.step.make_batch()
    as_given: Callable[[Tensor], Any] = partial(IntegerTensor, exponent=_EXPONENT)
    if task.step.precision == "fp32":
        inputs, as_given = inputs.float().view(-1, *task.step.sample), lambda tensor: tensor
    _engine(task)().step(as_given(inputs), labels)  # start threads, import modules
    make = _engine(task)
    gc.collect()
    gc.disable()  # the peak must not depend on when cycles are collected
    with tempfile.TemporaryDirectory(prefix="zo-repro-") as directory:
        capture = Path(directory, "steps.memray")
        with memray.Tracker(capture):
            engine, own = make(), inputs.clone()
            for _ in range(2):
                engine.step(as_given(own), labels)
        found = balance(memray.FileReader(capture).get_allocation_records())
    return {
        "total_bytes": found.together,
        "arena_bytes": engine.arena_bytes,
        "tables_bytes": found.objects,
    }


def _engine(task: EngineTask) -> Callable[[], Any]:
    """Return a function that creates the engine's network; the source network does not count."""
    step = task.step
    first = step.partition(step.layers())
    limits: dict[str, Any] = {"capacity": step.batch, "threads": task.threads}
    if step.precision == "int8":
        structure = lenet5(bias=False)
        network = IntegerNetwork.random(structure, seed=0)
        limits["compact"] = task.compact
        return partial(NativeElasticZOInt8, network, structure, step.sample, first, **limits)
    model = lenet5() if step.network == "lenet5" else pointnet()
    return partial(NativeElasticZO, model, step.sample, first, lr=1e-3, eps=1e-3, **limits)
