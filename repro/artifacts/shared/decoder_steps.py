"""Memory of a decoder's training step by equation and by simulation."""

from functools import partial

from repro.memory import analytic
from repro.memory.analytic import sizes_of
from repro.memory.simulation import simulate_step
from repro.memory.step import StepSpec, build_model, last_position_loss, make_batch
from repro.planner.methods import PAPER


def equation_bytes(spec: StepSpec, live_layers: float = 1) -> float:
    """Return the bytes of a step by equation (2) or (3) of the MeZO paper.

    A forward pass alone is counted as MeZO's; ``live_layers`` is L' of equation (3).
    """
    s = sizes_of(spec.shape, spec.bytes_per_parameter)
    if spec.method in ("bp", "bp_checkpoint"):
        return float(analytic.bp_bytes(s, checkpointing=spec.method == "bp_checkpoint"))
    return float(analytic.mezo_bytes(s, live_layers=min(live_layers, spec.shape.layers)))


def simulate_decoder_step(spec: StepSpec) -> dict[str, int]:
    """Return the bytes at the peak of a step under fake tensors, weights included.

    It is at the top level of a module for use in another process.
    """
    peak = simulate_step(
        partial(build_model, spec),
        partial(make_batch, spec),
        lambda model, batch: last_position_loss(model, *batch),
        PAPER[spec.method],
    )
    return peak.as_metrics("peak")
