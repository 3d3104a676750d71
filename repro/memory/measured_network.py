"""Measure a small network's training step in the host's allocator: in PyTorch or on the engine.

At this size a process's other allocations are as large as the step's. Each point therefore runs in
a fresh process, which first trains another learner of the same kind, so that primitives are
compiled and threads started. Blocks are classified by how they were allocated. PyTorch and its
backends use aligned memory for tensors and scratch, and for nothing else. Blocks from ``malloc``
are objects of the interpreter and of libraries, 30 to 160 KiB in our records, and are counted
separately. Memory maps are the interpreter's arenas for small objects, 1 MiB each. They appear at
unpredictable times and do not count.

When created, the engine allocates one aligned block, its arena, for weights, activations, the
tables of its kernels and all scratch memory. It computes those tables in blocks from ``malloc``,
which it frees before the first step. All of this counts: measuring starts before the arena is
allocated, so that any further allocation of a step would show.
"""

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import memray
import torch
from memray import AllocatorType
from torch import Tensor

from repro.core.leftovers import scratch_directory
from repro.core.validation import require_positive_int
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.memory.network_step import NetworkStep
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8

_EXPONENT = -7
"""Exponent of the integer images; like learning rate and eps, it does not affect memory."""

_FREED = (AllocatorType.FREE, AllocatorType.MUNMAP)
_ALIGNED = (
    AllocatorType.POSIX_MEMALIGN,
    AllocatorType.ALIGNED_ALLOC,
    AllocatorType.MEMALIGN,
    AllocatorType.VALLOC,
    AllocatorType.PVALLOC,
)


@dataclass(frozen=True)
class NetworkTask:
    """One point to measure; picklable."""

    step: NetworkStep
    threads: int
    onednn: bool | None = None
    """Whether PyTorch's oneDNN backend may be used; in PyTorch only."""
    compact: bool | None = None
    """Whether the integer engine processes one sample at a time; on the engine only."""

    def as_dict(self) -> dict[str, Any]:
        """Return the task as plain values, for records and cache keys."""
        own = {"threads": self.threads, "onednn": self.onednn, "compact": self.compact}
        return self.step.as_dict() | {n: value for n, value in own.items() if value is not None}


def measure_network(task: NetworkTask) -> dict[str, int]:
    """Measure two training steps of ``task.step`` in PyTorch; call it in a fresh process.

    As in ``simulate_network``, the first layer's input counts.

    Returns:
        Sizes in bytes. ``total_bytes`` is the peak of tensors, including the input, and scratch
        memory. ``resident_bytes`` is the part of it alive after the steps: weights, input, and
        buffers kept between steps. ``objects_bytes`` is the peak of objects above 512 bytes of the
        interpreter and of libraries.

    Raises:
        UsageError: the number of threads is below 1.
    """
    torch.set_num_threads(require_positive_int("threads", task.threads))
    torch.backends.mkldnn.set_flags(task.onednn)  # type: ignore[no-untyped-call]
    inputs, labels = task.step.make_batch()
    task.step.learner().step((inputs, labels))
    gc.collect()
    gc.disable()  # the peak must not depend on when cycles are collected
    with scratch_directory() as directory:
        capture = directory / "steps.memray"
        with memray.Tracker(capture):
            learner = task.step.learner()
            # a copy made here counts; of uint8 images the learner makes its own
            batch = inputs if inputs.dtype == torch.uint8 else inputs.clone()
            for _ in range(2):
                gc.collect()  # frees reference cycles of the learner or of a step
                learner.step((batch, labels))
        found = balance(memray.FileReader(capture).get_allocation_records())
    del found["both_bytes"]
    return found


def measure_engine(task: NetworkTask) -> dict[str, int]:
    """Measure two training steps of ``task.step`` on the engine; call it in a fresh process.

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
    with scratch_directory() as directory:
        capture = directory / "steps.memray"
        with memray.Tracker(capture):
            engine, own = make(), inputs.clone()
            for _ in range(2):
                engine.step(as_given(own), labels)
        found = balance(memray.FileReader(capture).get_allocation_records())
    return {
        "total_bytes": found["both_bytes"],
        "arena_bytes": engine.arena_bytes,
        "tables_bytes": found["objects_bytes"],
    }


def _engine(task: NetworkTask) -> Callable[[], Any]:
    """Return a function that creates the engine's network; the source network does not count."""
    step = task.step
    first = step.partition(step.layers())
    limits: dict[str, Any] = {"capacity": step.batch, "threads": task.threads}
    if step.precision == "int8":
        structure = step.model()
        network = IntegerNetwork.random(structure, seed=0)
        limits["compact"] = task.compact
        return partial(NativeElasticZOInt8, network, structure, step.sample, first, **limits)
    return partial(NativeElasticZO, step.model(), step.sample, first, lr=1e-3, eps=1e-3, **limits)


def balance(records: Iterable[memray.AllocationRecord]) -> dict[str, int]:
    """Add up allocations and frees in their order, without memory maps.

    Returns:
        The values of ``measure_network``, and ``both_bytes``, the peak of aligned memory and
        objects together.
    """
    blocks: dict[int, tuple[bool, int]] = {}  # by address: whether it is aligned, its size
    total, peak, together = {True: 0, False: 0}, {True: 0, False: 0}, 0
    for record in records:
        if record.allocator in _FREED:
            # blocks from before the capture are freed, too
            aligned, size = blocks.pop(record.address, (False, 0))
            total[aligned] -= size
        elif record.allocator != AllocatorType.MMAP:
            aligned = record.allocator in _ALIGNED
            blocks[record.address] = aligned, record.size
            total[aligned] += record.size
            peak[aligned] = max(peak[aligned], total[aligned])
            together = max(together, sum(total.values()))
    return {
        "total_bytes": peak[True],
        "resident_bytes": total[True],
        "objects_bytes": peak[False],
        "both_bytes": together,
    }
