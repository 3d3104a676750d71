"""Find the memory of a decoder's training step by equation, by simulation, by measurement."""

from collections.abc import Iterator, Sequence
from functools import partial

from repro.artifacts.base import Context
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.core.names import Attention, Dtype
from repro.measurement.environment import source_sha256
from repro.measurement.result_cache import ResultCache
from repro.memory.analytic import AS_PRINTED, sizes_of
from repro.memory.measured import MeasureTask, measure
from repro.memory.shape import DecoderShape
from repro.memory.simulation import simulate_step
from repro.memory.step import (
    STEP_METHODS,
    StepSpec,
    build_model,
    last_position_loss,
    make_batch,
)
from repro.planner.methods import PAPER


def equation_bytes(spec: StepSpec, live_layers: float = 1) -> float:
    """Return the bytes of a step by equation (2) or (3) of the MeZO paper.

    A forward pass alone counts like a MeZO step; ``live_layers`` is L' of equation (3).
    """
    s = sizes_of(spec.shape, spec.bytes_per_parameter)
    if spec.method in ("bp", "bp_checkpoint"):
        return float(AS_PRINTED.bp_bytes(s, checkpointing=spec.method == "bp_checkpoint"))
    return float(AS_PRINTED.mezo_bytes(s, live_layers))


def simulate_decoder_step(spec: StepSpec) -> dict[str, int]:
    """Return the bytes at the peak of a step under fake tensors, weights included.

    The function is at the top level of the module for use in another process.
    """
    peak = simulate_step(
        partial(build_model, spec),
        partial(make_batch, spec),
        lambda model, batch: last_position_loss(model, *batch),
        PAPER[spec.method],
    )
    return peak.as_metrics("peak")


def measure_decoder_step(task: MeasureTask) -> dict[str, int]:
    """Return the measured bytes of a step, or ``out_of_memory``.

    The function is at the top level of the module for use in another process.
    """
    peak = measure(task)
    return {"out_of_memory": True} if peak is None else peak.as_metrics()


def simulated_steps(
    slug: str,
    shapes: Sequence[DecoderShape],
    attentions: Sequence[Attention],
    dtype: Dtype,
    context: Context,
) -> Iterator[tuple[StepSpec, dict[str, int]]]:
    """Yield a step of each training method at each shape, with its bytes at the peak.

    Results of the same code are reused, as they do not depend on the machine.
    """
    specs = [
        StepSpec(shape, method, attention, dtype)
        for shape in shapes
        for method in STEP_METHODS
        if method != "forward"
        for attention in attentions
    ]
    identity = {
        "source": source_sha256("memory", "methods", "models", "planner"),
        "versions": context.environment.versions,
    }
    return run_in_subprocesses(
        f"{slug} simulated",
        simulate_decoder_step,
        specs,
        StepSpec.as_dict,
        label=lambda spec: STEP_LABEL.format(**spec.as_dict()),
        store=ResultCache("simulated", identity),  # not by slug: two artifacts share steps
        workers=context.workers,
    )


STEP_LABEL = "N={context} L={layers} D={hidden} {method} {attention} {dtype}"
"""Label of a step in the progress display, formatted with its point."""
