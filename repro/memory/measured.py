"""Measure the peak memory of a real training step, as given out by the allocator.

On the host memray traces every allocation of the process, so the backends' scratch memory counts.
The interpreter's memory does not count: neither its earlier allocations nor the pools of 1 MiB that
it maps for small objects whenever the last one happens to be full. On a GPU the result is the peak
of PyTorch's allocator. Call ``measure`` in a fresh process (``repro.measurement.isolation``), since
a process can have only one tracker at a time.
"""

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from repro.core.errors import is_out_of_memory
from repro.core.leftovers import scratch_directory
from repro.core.validation import require_positive_int
from repro.measurement.device import Device, require_device
from repro.memory.step import StepSpec, build_model, make_batch, make_step

if TYPE_CHECKING:
    import memray
    from transformers import LlamaForCausalLM

AnyModel = TypeVar("AnyModel", bound=torch.nn.Module)


@dataclass(frozen=True)
class MeasureTask:
    """One point to measure; picklable."""

    spec: StepSpec
    device: Device
    threads: int
    onednn: bool
    """Whether PyTorch's oneDNN backend may be used on the host."""


@dataclass(frozen=True)
class MeasuredPeak:
    """Bytes taken by one training step after a warm-up step."""

    parameters: int
    """Logical bytes of the parameters."""
    weights: int
    """Memory allocated after building the model: parameters, buffers, larger objects of modules."""
    step: int
    """Peak of the step above the memory allocated before it."""
    reserved: int | None = None
    """On a GPU: peak memory reserved by PyTorch's allocator, weights included."""
    state: int = 0
    """Tensors left by the first step for later ones, such as Adam's moments."""

    @property
    def peak(self) -> int:
        """Weights, state and step together: M in the formulas."""
        return self.weights + self.state + self.step

    def as_metrics(self) -> dict[str, int]:
        """Return the numbers under the names of a record."""
        reserved = {} if self.reserved is None else {"reserved_bytes": self.reserved}
        state = {"state_bytes": self.state} if self.state else {}
        return {
            "peak_bytes": self.peak,
            "parameters_bytes": self.parameters,
            "weights_bytes": self.weights,
            "step_bytes": self.step,
            **state,
            **reserved,
        }


def measure(task: MeasureTask) -> MeasuredPeak | None:
    """Measure one training step of ``task.spec``; return ``None`` if it does not fit in memory.

    Earlier steps are not measured, since they fill caches of compiled primitives that later steps
    reuse. Tensors left by the first one for later ones count.

    Raises:
        UsageError: the device does not exist.
    """
    require_device(task.device)
    torch.set_num_threads(require_positive_int("threads", task.threads))
    torch.backends.mkldnn.set_flags(task.onednn)  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    spec = task.spec

    def start(model: "LlamaForCausalLM") -> Callable[[], object]:
        return make_step(spec, model, make_batch(spec, task.device))

    return measure_step(partial(build_model, spec), start, task.device)


def measure_step(
    build: Callable[[], AnyModel], start: Callable[[AnyModel], Callable[[], object]], device: Device
) -> MeasuredPeak | None:
    """Measure one step of any training; return ``None`` if it does not fit in memory.

    Args:
        build: makes the model on PyTorch's default device.
        start: returns a function for one step of the model on ``device``.
        device: the device whose memory is measured.
    """
    on_device = _on_cuda if device == "cuda" else _on_host
    try:
        return on_device(build, start)
    except RuntimeError as error:
        if is_out_of_memory(error):
            return None
        raise


def _on_host(
    build: Callable[[], AnyModel], start: Callable[[AnyModel], Callable[[], object]]
) -> MeasuredPeak:
    import memray  # imported here: measuring a GPU does not need it

    torch.ones(64, 64) @ torch.ones(64, 64)  # thread pools start before anything is counted
    with scratch_directory() as directory:
        built = directory / "build.memray"
        with torch.device("meta"):
            build()  # do late imports and grow the interpreter's tables before anything is counted
        gc.collect()
        with memray.Tracker(built):
            model = build()
            gc.collect()
        weights = _allocated(memray.FileReader(built).get_leaked_allocation_records())
    step = start(model)
    state = _kept_by(step, "cpu")
    # which runs a step before the measurement again: right after the listing of all objects, the
    # interpreter's own allocations would show in the peak of a tiny model
    return MeasuredPeak(_parameters(model), weights, peak_of_step(step), state=state)


def peak_of_step(step: Callable[[], object]) -> int:
    """Return the peak of ``step`` on the host in bytes, above earlier allocations.

    The step runs once before the measurement; call this in a fresh process.
    """
    import memray

    step()
    with scratch_directory() as directory:
        capture = directory / "step.memray"
        gc.collect()
        gc.disable()  # cycles collected within the step would make the peak vary
        try:
            with memray.Tracker(capture):
                step()
        finally:
            gc.enable()
        return _allocated(memray.FileReader(capture).get_high_watermark_allocation_records())


def _on_cuda(
    build: Callable[[], AnyModel], start: Callable[[AnyModel], Callable[[], object]]
) -> MeasuredPeak | None:
    before = torch.cuda.memory_allocated()
    with torch.device("cuda"):
        model = build()
    weights = torch.cuda.memory_allocated() - before
    step = start(model)
    state = _kept_by(step, "cuda")
    peak = peak_on_cuda(step)
    if peak is None:
        return None
    return MeasuredPeak(_parameters(model), weights, peak.allocated, peak.reserved, state)


class CudaPeak(NamedTuple):
    """Bytes of a step on a GPU."""

    allocated: int
    """Peak bytes of tensors, above those allocated before the step."""
    reserved: int
    """Peak bytes reserved by PyTorch's allocator, weights included."""


def peak_on_cuda(step: Callable[[], object]) -> CudaPeak | None:
    """Return the peak of ``step`` on the GPU, or ``None`` if the GPU is too small for it.

    The step runs twice and the second is measured, since the first allocates the libraries'
    workspaces.
    """
    try:
        step()
        torch.cuda.synchronize()
        # else the reserved memory would include blocks of the first step only
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        resting = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        return None
    allocated = torch.cuda.max_memory_allocated() - resting
    return CudaPeak(allocated, torch.cuda.max_memory_reserved())


def _kept_by(step: Callable[[], object], device: Device) -> int:
    """Return the bytes of PyTorch's tensors on ``device`` that exist after ``step``, not before."""
    gc.collect()
    before = _tensors(device)  # which keeps them, so that no new tensor takes the place of one
    step()
    gc.collect()
    after = _tensors(device)
    return sum(memory.nbytes() for place, memory in after.items() if place not in before)


def _tensors(device: Device) -> dict[int, torch.UntypedStorage]:
    """Return the memory of every tensor by its address."""
    # not isinstance(), which would ask objects that answer for others
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    memory = [one.untyped_storage() for one in tensors if one.device.type == device]
    return {storage.data_ptr(): storage for storage in memory}


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def _allocated(records: "Iterable[memray.AllocationRecord]") -> int:
    """Add up the allocations except memory maps, which are the interpreter's pools."""
    from memray import AllocatorType

    return sum(record.size for record in records if record.allocator != AllocatorType.MMAP)
