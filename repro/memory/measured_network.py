"""Measured memory of a small network's step: what the host's allocator really gave.

At this size a process's own doings are as large as what is measured. So each point has a fresh
process, which first trains another learner of the same kind: primitives are then compiled and
threads started. Memory maps do not count: they are the interpreter's arenas for small objects, a
mebibyte each, which come when they like; tensors and scratch are allocated, not mapped.
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
    """Bytes that training took, from before the weights were made."""

    peak: int
    """At most, over two steps: weights, input, activations, scratch, objects above 512 bytes."""
    resident: int
    """After the steps: weights, input, and what stays from one step to the next."""

    def as_metrics(self) -> dict[str, int]:
        """Return the numbers, named for a record."""
        return {"total_bytes": self.peak, "resident_bytes": self.resident}


def measure_network(task: NetworkTask) -> NetworkPeak:
    """Measure two training steps of ``task.step``; call it in a fresh process.

    The input counts as the first layer reads it, as in ``simulate_network``.

    Raises:
        UsageError: fewer threads than one.
    """
    torch.set_num_threads(require_positive_int("threads", task.threads))
    torch.backends.mkldnn.set_flags(task.onednn)  # type: ignore[no-untyped-call]
    inputs, labels = task.step.make_batch()
    task.step.learner().step(inputs, labels)
    gc.collect()
    gc.disable()  # the peak must not depend on when cycles are collected
    with tempfile.TemporaryDirectory(prefix="zo-repro-") as directory:
        capture = Path(directory, "steps.memray")
        with memray.Tracker(capture):
            learner = task.step.learner()
            batch = inputs if inputs.dtype == torch.uint8 else inputs.clone()
            for _ in range(2):
                gc.collect()  # what making the learner, or a step, left in cycles
                learner.step(batch, labels)
        return _balance(memray.FileReader(capture).get_allocation_records())


def _balance(records: Iterable[memray.AllocationRecord]) -> NetworkPeak:
    """Add up allocations and what is freed of them, maps left out."""
    sizes: dict[int, int] = {}
    total = peak = 0
    for record in records:
        if record.allocator in _FREED:
            total -= sizes.pop(record.address, 0)
        elif record.allocator != AllocatorType.MMAP:
            sizes[record.address] = record.size
            total += record.size
            peak = max(peak, total)
    return NetworkPeak(peak, total)
