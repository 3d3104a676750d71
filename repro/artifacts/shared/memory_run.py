"""Compute, simulate and measure the memory of training steps.

Kinds of results:

- ``layers``: the layer table behind the formulas and the bound. The point names the network and its
  precision; the metrics are ``rows``.
- ``formula``: the paper's equations, by part. The point is a step and the ``optimizer``.
- ``bound``: the minimum that a step needs layer by layer if every buffer is freed after its last
  use, by part. The engine merges layers and can take less.
- ``simulated``: the tensors at the peak of a real step, by part.
- ``measured``: the allocator's peak. The point also has ``threads`` and ``onednn``.
- ``engine``: the total memory of a step on the compiled engine. The point also has ``threads`` and
  ``compact``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, get_args

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.memory.elasticzo import Optimizer, training_bytes
from repro.memory.lower_bound import lower_bound
from repro.memory.measured_network import NetworkTask, measure_engine, measure_network
from repro.memory.network_step import NetworkStep
from repro.memory.simulated_network import simulate_network
from repro.ondevice.build import build


def estimate_memory(
    slug: str, steps: Sequence[NetworkStep], threads: int, context: Context, *, engine: bool
) -> Iterator[Result]:
    """Yield every memory estimate of ``steps``; an interrupted run keeps its finished points.

    Raises:
        ReproError: a process died or failed, or the engine is wanted and cannot be built.
    """
    if engine:  # first, so that a missing compiler is reported before anything is measured
        build(otherwise="leave the engine's memory out, with --no-engine")
    shown = []
    for step in steps:
        point = {n: v for n, v in step.as_dict().items() if n not in ("method", "batch")}
        if point not in shown:
            shown.append(point)
            rows = [asdict(layer) | {"accumulates": layer.accumulates} for layer in step.layers()]
            yield Result("layers", point, {"rows": rows})
    for step in steps:
        layers = step.layers()
        partition, precision = step.partition(layers), step.precision
        optimizers: tuple[Optimizer, ...] = get_args(Optimizer) if precision == "fp32" else ("sgd",)
        for optimizer in optimizers:
            formula = training_bytes(
                layers, partition, step.batch, precision=precision, optimizer=optimizer
            )
            yield Result("formula", step.as_dict() | {"optimizer": optimizer}, formula.as_metrics())
        bound = lower_bound(layers, partition, step.batch, precision=precision)
        yield Result("bound", step.as_dict(), bound.as_metrics())
    for step, parts in _isolated(f"{slug} simulated", simulate_point, steps, context):
        yield Result("simulated", step.as_dict(), parts)
    tasks = [NetworkTask(step, threads, onednn=use) for step in steps for use in (True, False)]
    for task, peak in _isolated(f"{slug} measured", measure_network, tasks, context):
        yield Result("measured", task.as_dict(), peak)
    if engine:
        modes = {"fp32": (False,), "int8": (False, True)}
        native = [
            NetworkTask(step, threads, compact=compact)
            for step in steps
            for compact in modes[step.precision]
        ]
        for task, peak in _isolated(f"{slug} engine", measure_engine, native, context):
            yield Result("engine", task.as_dict(), peak)


def simulate_point(step: NetworkStep) -> dict[str, int]:
    """Simulate one point; at the top level of the module for use in another process."""
    return simulate_network(step).as_metrics()


def _isolated(
    title: str,
    function: Callable[[Any], dict[str, int]],
    tasks: Sequence[NetworkStep] | Sequence[NetworkTask],
    context: Context,
) -> Iterator[tuple[Any, dict[str, Any]]]:
    return run_in_subprocesses(
        title,
        function,
        tasks,
        lambda task: {"of": title} | task.as_dict(),
        label=lambda task: " ".join(str(value) for value in task.as_dict().values()),
        store=context.result_cache,
        workers=context.workers,
        preload=["repro.artifacts.shared.memory_run"],
    )
