"""Compute, simulate and measure the points of Fig. 3.

Kinds of results:

- ``analytic``: equations (2) and (3) along one axis, as arrays. The point has ``scope`` (the
  paper's model or the measured one) and ``axis``.
- ``parameters``: the parameters of the real decoder, counted and by the formula (Fig. 2).
- ``fig4_setting``: equations (2) and (3) for a model of Fig. 4 (claim A8). The point has ``model``.
- ``equal_memory``: the search for settings that give all three models 17 GB (claim A8).
- ``simulated``, ``measured``: the peak of one training step. The point is its specification.
- ``perturbations``: the measured peak of a MeZO step. The point has n as ``perturbations``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig3 import Config
from repro.artifacts.shared.decoder_steps import (
    STEP_LABEL,
    equation_bytes,
    measure_decoder_step,
    simulated_steps,
)
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.core.names import BYTES
from repro.measurement.device import require_device
from repro.memory import analytic, equal_memory
from repro.memory.analytic import AS_PRINTED, SizeAxis, Sizes, sizes_of
from repro.memory.measured import MeasureTask
from repro.memory.step import STEP_METHODS, StepSpec, parameter_table

_PERTURBATIONS = (1, 5)
"""Values of n, perturbations of a MeZO step: one, and the paper's five."""


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every result of the figure; an interrupted run keeps its finished points."""
    require_device(config.device)
    if "equations" in config.parts:
        yield from _analytic(config)
        shape = config.paper_shape()
        formula = float(analytic.parameter_count(sizes_of(shape, 1)))
        counts = {"formula": formula, "table": parameter_table(shape)}
        yield Result("parameters", asdict(shape), counts)
        yield from _fig4()
    if "simulated" in config.parts:
        shapes, attentions = config.simulated_shapes(), config.attentions
        for spec, step in simulated_steps("mezo_fig3", shapes, attentions, "float16", context):
            yield Result("simulated", spec.as_dict(), _with_formula(spec, config, step))
    if "measured" in config.parts:
        yield from _measured(config, context)
    if "perturbations" in config.parts:
        yield from _perturbations(config, context)


def _analytic(config: Config) -> Iterator[Result]:
    """Yield the lines in the panels of the paper's model and of the small measured models."""
    ranges: dict[SizeAxis, list[int]] = {
        "context": _geometric(1, 32768, step=1),
        "layers": list(range(1, 101)),
        "hidden": _geometric(max(512, config.heads), 32768, step=config.heads),
    }
    for axis, values in ranges.items():
        s = sizes_of(config.paper_shape(), config.bytes_per_parameter, **{axis: values})
        yield _line(config, "paper", axis, values, s)
    width = BYTES[config.measure_dtypes[0]]
    measured: dict[SizeAxis, tuple[int, ...]] = {
        "context": config.measure_contexts,
        "layers": config.measure_layers,
        "hidden": config.measure_hiddens,
    }
    for axis, ends in measured.items():
        if len(ends) > 1:
            step = config.measure_heads if axis == "hidden" else 1
            values = _geometric(min(ends), max(ends), step)
            s = sizes_of(config.measured_shape(), width, **{axis: values})
            yield _line(config, "measured", axis, values, s)


def _line(config: Config, scope: str, axis: SizeAxis, values: list[int], s: Sizes) -> Result:
    live = config.live_layers
    limits = {
        f"ratio_limit{suffix}": float(np.ravel(limit)[-1])
        for suffix, limit in (
            ("", AS_PRINTED.ratio_limit(s, axis, live_layers=live)),
            ("_checkpoint", AS_PRINTED.ratio_limit(s, axis, checkpointing=True, live_layers=live)),
        )
        if np.isfinite(limit).all()  # with L' = 0 the ratio grows with N without bound
    }
    return Result(
        kind="analytic",
        point={"scope": scope, "axis": axis},
        metrics={
            "values": values,
            "bp_bytes": AS_PRINTED.bp_bytes(s).tolist(),
            "bp_checkpoint_bytes": AS_PRINTED.bp_bytes(s, checkpointing=True).tolist(),
            "mezo_bytes": AS_PRINTED.mezo_bytes(s, live).tolist(),
            **limits,
        },
    )


def _fig4() -> Iterator[Result]:
    """Yield the memory of the set-ups of Fig. 4, and the search for settings that make it equal."""
    for model, set_up in equal_memory.SET_UPS.items():
        shape, fraction = set_up.shape, set_up.live_fraction
        s, single = sizes_of(shape, 2), sizes_of(shape, 2, batch=1)
        metrics = {
            "total_bytes": float(set_up.peak(s)),
            "weights_bytes": float(AS_PRINTED.weight_bytes(s)),
        }
        if fraction is None:
            needed = equal_memory.bytes_per_parameter_for(shape)
            metrics["bytes_per_parameter_for_target"] = needed
        else:
            single_bytes = float(set_up.peak(single))
            metrics |= {"live_fraction": fraction, "total_bytes_batch_1": single_bytes}
        point = {"model": model, "method": set_up.method, "bytes_per_parameter": 2}
        yield Result("fig4_setting", point, metrics)
    grid = equal_memory.Grid()
    bounds = {
        "target_bytes": equal_memory.TARGET_BYTES,
        "tolerance_bytes": equal_memory.TOLERANCE_BYTES,
    }
    yield Result("equal_memory", asdict(grid) | bounds, equal_memory.search_settings(grid))


def _measured(config: Config, context: Context) -> Iterator[Result]:
    specs = [
        StepSpec(shape, method, attention, dtype)
        for shape in config.measured_shapes()
        for method in STEP_METHODS
        for attention in config.attentions
        for dtype in config.measure_dtypes
    ]
    for task, metrics in _measured_points("measured", specs, config, context):
        yield Result("measured", _task_point(task), _with_formula(task.spec, config, metrics))


def _perturbations(config: Config, context: Context) -> Iterator[Result]:
    """Yield the peak of a MeZO step of the measured model with one perturbation and with five."""
    specs = [
        StepSpec(config.measured_shape(), "mezo", attention, dtype, number)
        for attention in config.attentions
        for dtype in config.measure_dtypes
        for number in _PERTURBATIONS
    ]
    for task, metrics in _measured_points("perturbations", specs, config, context):
        point = _task_point(task) | {"perturbations": task.spec.perturbations}
        yield Result("perturbations", point, metrics)


def _measured_points(
    name: str, specs: Sequence[StepSpec], config: Config, context: Context
) -> Iterator[tuple[MeasureTask, dict[str, int]]]:
    return run_in_subprocesses(
        f"mezo_fig3 {name}",
        measure_decoder_step,
        [MeasureTask(spec, config.device, config.threads, config.onednn) for spec in specs],
        _task_point,
        label=lambda task: STEP_LABEL.format(**_task_point(task)),
        store=context.result_cache,
        workers=context.workers if config.device == "cpu" else 1,  # a GPU serves one process
    )


def _with_formula(spec: StepSpec, config: Config, metrics: dict[str, int]) -> dict[str, Any]:
    """Add the formula's prediction and the L' at which it would be exact (``effective_layers``)."""
    if "peak_bytes" not in metrics:
        return metrics
    s = sizes_of(spec.shape, spec.bytes_per_parameter)
    peak, parameters = metrics["peak_bytes"], metrics["parameters_bytes"]
    found: dict[str, Any] = {
        **metrics,
        "formula_bytes": equation_bytes(spec, config.live_layers),
        "effective_layers": float(analytic.effective_layers(s, peak, parameters)),
    }
    if spec.method in ("bp", "bp_checkpoint"):
        without_gradients = analytic.effective_layers(s, peak, 2 * parameters)
        found["effective_layers_beyond_gradients"] = float(without_gradients)
    return found


def _task_point(task: MeasureTask) -> dict[str, Any]:
    rest = {"device": task.device, "threads": task.threads, "onednn": task.onednn}
    return task.spec.as_dict() | rest


def _geometric(first: int, last: int, step: int) -> list[int]:
    """Return multiples of ``step`` from ``first`` to ``last``, sixteen per doubling."""
    octaves = np.log2(last / first)
    values = first * 2 ** np.linspace(0, octaves, round(16 * octaves) + 1)
    return sorted({round(float(value) / step) * step for value in values})
