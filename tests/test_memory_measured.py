"""Measured memory against arithmetic on the tensors of the step."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from repro.artifacts import index
from repro.core.errors import ReproError, UsageError
from repro.measurement.isolation import run_isolated
from repro.memory.measured import MeasuredPeak, MeasureTask, measure, measure_step
from repro.memory.shape import DecoderShape
from repro.memory.step import Method, StepSpec

SMALL = DecoderShape(context=128, layers=2, hidden=128, heads=4, vocabulary=256)
PRELOAD = ["repro.memory.measured"]


def task(method: Method, **changes: int) -> MeasureTask:
    spec = StepSpec(replace(SMALL, **changes), method, "eager", "float32")
    return MeasureTask(spec, "cpu", threads=1, onednn=True)


def test_one_step_of_each_method() -> None:
    tasks = [task("forward"), task("mezo"), task("bp"), task("bp_checkpoint")]
    found = dict(run_isolated(measure, tasks, workers=2, preload=PRELOAD))
    forward, mezo, bp, checkpointed = (found[one] for one in tasks)
    assert forward is not None
    assert mezo is not None
    assert bp is not None
    assert checkpointed is not None
    parameters = 2 * (4 * 128 * 128 + 3 * 128 * 344 + 2 * 128) + 2 * 256 * 128 + 128
    assert {one.parameters for one in (forward, mezo, bp, checkpointed)} == {4 * parameters}
    # weights of float32, and little beside them (buffers, module objects)
    assert 4 * parameters <= forward.weights <= 4 * parameters + 100_000
    assert mezo.step <= 1.02 * forward.step
    assert bp.step >= 4 * parameters  # the gradients, at the least
    assert forward.step < checkpointed.step <= bp.step
    assert mezo.peak == mezo.weights + mezo.step


def test_a_point_names_its_perturbations_only_if_there_are_several() -> None:
    """So that the records and cached results of one perturbation keep their identity."""
    one = StepSpec(SMALL, "mezo", "eager", "float32")
    several = replace(one, perturbations=5).as_dict()
    assert several.pop("perturbations") == 5
    assert one.as_dict() == several


SIDE = 4000
"""So large that a table of the interpreter, which may grow by 1 MiB in a step, hardly counts."""


def adam_step(model: torch.nn.Module) -> Callable[[], object]:
    optimizer, inputs = torch.optim.Adam(model.parameters()), torch.ones(1, SIDE)

    def step() -> None:
        model(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measured_adam(size: int) -> MeasuredPeak | None:
    return measure_step(partial(torch.nn.Linear, size, size, bias=False), adam_step, "cpu")


def test_what_an_optimizer_keeps_between_steps_counts() -> None:
    ((_, found),) = run_isolated(measured_adam, [SIDE], workers=1, preload=PRELOAD)
    assert found is not None
    weights = 4 * SIDE * SIDE
    assert found.state == pytest.approx(2 * weights, rel=1e-4)  # Adam's two moments
    # and a gradient, the denominator and the step of one tensor at a time
    assert found.peak == pytest.approx(6 * weights, rel=0.01)
    assert found.as_metrics()["peak_bytes"] == found.peak


def test_a_device_that_is_absent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="finds no CUDA device here; use --device cpu"):
        measure(replace(task("bp"), device="cuda"))


def test_a_gpu_that_runs_out_of_memory_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("repro.memory.measured.require_device", lambda _: None)
    monkeypatch.setattr("repro.memory.measured._on_cuda", exhausted)
    assert measure(replace(task("bp"), device="cuda")) is None


def test_a_host_that_runs_out_of_memory_gives_no_number() -> None:
    huge = StepSpec(replace(SMALL, context=1_000_000), "forward", "eager", "float32")
    assert measure(MeasureTask(huge, "cpu", threads=1, onednn=True)) is None


def test_a_process_that_dies_is_reported_with_its_point() -> None:
    with pytest.raises(ReproError, match=r"the process of 9 died with exit code 9"):
        list(run_isolated(os._exit, [9], workers=1, preload=[]))


def test_an_error_in_a_process_keeps_its_type() -> None:
    with pytest.raises(UsageError, match="no artifact named 'nonsense'"):
        list(run_isolated(index.load, ["nonsense"], workers=1, preload=[]))


@pytest.mark.gpu
def test_one_step_on_a_gpu() -> None:
    found = measure(replace(task("bp"), device="cuda"))
    assert found is not None
    assert found.step >= found.weights > 0
