"""Time and memory of one training step of a small Llama; the two are never taken together."""

from typing import Any

import pytest

from repro.measurement.isolation import run_isolated
from repro.memory.measured import MeasureTask, measure
from repro.memory.shape import DecoderShape
from repro.memory.step import STEP_METHODS, Method, StepSpec, build_model, make_batch, make_step

SHAPE = DecoderShape(context=128, layers=4, hidden=256, heads=8, vocabulary=2048, batch=4)


def spec_of(method: Method) -> StepSpec:
    """Return the step that both benchmarks are of."""
    return StepSpec(SHAPE, method, "sdpa", "float32")


@pytest.mark.parametrize("method", STEP_METHODS)
def test_step_time(benchmark: Any, method: Method) -> None:
    """Seconds of one step, without any tracker."""
    spec = spec_of(method)
    step = make_step(spec, build_model(spec), make_batch(spec))
    benchmark.extra_info["config"] = spec.as_dict()
    benchmark.pedantic(step, warmup_rounds=3, rounds=20)


@pytest.mark.memray
@pytest.mark.parametrize("method", STEP_METHODS)
def test_step_memory(benchmark: Any, method: Method) -> None:
    """Peak bytes of one step, in ``extra_info``; the time is that of measuring."""
    task = MeasureTask(spec_of(method), "cpu", threads=1, onednn=True)
    benchmark.extra_info["config"] = task.spec.as_dict()

    def measured() -> dict[str, int]:
        ((_, peak),) = run_isolated(measure, [task], workers=1, preload=["repro.memory.measured"])
        assert peak is not None
        return peak.as_metrics()

    benchmark.extra_info |= benchmark.pedantic(measured, rounds=1)
    assert benchmark.extra_info["peak_bytes"] > benchmark.extra_info["weights_bytes"] > 0
