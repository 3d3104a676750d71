"""Measure the memory that the host's allocator gives to a small network's step.

At this size a process's other allocations are as large as the step's. So each point has a fresh
process, which first trains another learner of the same kind: primitives are then compiled and
threads started. Blocks are told apart by how they were asked for. PyTorch and its backends ask for
aligned memory for tensors and scratch, and for nothing else. What comes by ``malloc`` are objects
of the interpreter and of libraries, some ten KiB, counted by themselves. Memory maps are the
interpreter's arenas for small objects, a MiB each, which come when they like: they do not count.
"""

import gc
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import memray
import torch
from memray import AllocatorType

from repro.core.validation import require_positive_int
from repro.memory.network_step import NetworkStep

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
    onednn: bool
    """Whether PyTorch's oneDNN backend may be used."""

    def as_dict(self) -> dict[str, Any]:
        """Return the task as plain values, for records and cache keys."""
        return self.step.as_dict() | {"threads": self.threads, "onednn": self.onednn}


@dataclass(frozen=True)
class NetworkPeak:
    """Bytes that training took."""

    peak: int
    """At most, over two steps: tensors, the input among them, and scratch."""
    resident: int
    """Of these, after the steps: weights, input, and what stays from one step to the next."""
    objects: int
    """At most, over two steps: objects of the interpreter and of libraries above 512 bytes."""
    together: int
    """At most, over two steps: both."""

    def as_metrics(self) -> dict[str, int]:
        """Return the numbers, named for a record."""
        return {
            "total_bytes": self.peak,
            "resident_bytes": self.resident,
            "objects_bytes": self.objects,
        }


def measure_network(task: NetworkTask) -> NetworkPeak:
    """Measure two training steps of ``task.step``; call it in a fresh process.

    The input counts as the first layer reads it, as in ``simulate_network``.

    Raises:
        UsageError: fewer threads than one.
    """
    torch.set_num_threads(require_positive_int("threads", task.threads))
    torch.backends.mkldnn.set_flags(task.onednn)  # type: ignore[no-untyped-call]
    inputs, labels = task.step.make_batch()
    task.step.learner().step((inputs, labels))
    gc.collect()
    gc.disable()  # the peak must not depend on when cycles are collected
    with tempfile.TemporaryDirectory(prefix="zo-repro-") as directory:
        capture = Path(directory, "steps.memray")
        with memray.Tracker(capture):
            learner = task.step.learner()
            batch = inputs if inputs.dtype == torch.uint8 else inputs.clone()
            for _ in range(2):
                gc.collect()  # what making the learner, or a step, left in cycles
                learner.step((batch, labels))
        return balance(memray.FileReader(capture).get_allocation_records())


def balance(records: Iterable[memray.AllocationRecord]) -> NetworkPeak:
    """Add up allocations and frees in their order, without maps."""
    blocks: dict[int, tuple[bool, int]] = {}  # by address: whether it is aligned, its size
    total, peak, together = {True: 0, False: 0}, {True: 0, False: 0}, 0
    for record in records:
        if record.allocator in _FREED:
            aligned, size = blocks.pop(record.address, (False, 0))
            total[aligned] -= size
        elif record.allocator != AllocatorType.MMAP:
            aligned = record.allocator in _ALIGNED
            blocks[record.address] = aligned, record.size
            total[aligned] += record.size
            peak[aligned] = max(peak[aligned], total[aligned])
            together = max(together, sum(total.values()))
    return NetworkPeak(
        peak=peak[True], resident=total[True], objects=peak[False], together=together
    )
