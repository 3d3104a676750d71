"""Simulated memory against tensors counted by hand and against PyTorch's own tracker."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from repro.core.errors import UsageError
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.shape import LLAMA2_7B, DecoderShape
from repro.memory.simulation import simulate_step
from repro.memory.step import (
    EPS,
    LR,
    Method,
    StepSpec,
    build_model,
    last_position_loss,
    make_batch,
    parameter_table,
)
from repro.methods.backprop import Backprop
from repro.methods.noise import default_chunk
from repro.methods.step_info import PhaseTimer
from repro.methods.torch_noise import perturb_
from repro.models.decoder import llama_intermediate_size
from repro.models.training_mode import unpacked
from repro.planner.methods import PAPER

SMALL = DecoderShape(context=64, layers=3, hidden=64, heads=4, vocabulary=128)


def llama_parameters(shape: DecoderShape) -> int:
    """Parameters of Llama 2 as its paper describes it."""
    D, width = shape.hidden, llama_intermediate_size(shape.hidden)
    layer = 4 * D * D + 3 * D * width + 2 * D
    return shape.layers * layer + 2 * shape.vocabulary * D + D


def simulate(spec: StepSpec) -> MemoryBreakdown:
    return simulate_step(
        partial(build_model, spec),
        partial(make_batch, spec),
        lambda model, batch: last_position_loss(model, *batch),
        PAPER[spec.method],
    )


def tracked(spec: StepSpec) -> int:
    """Peak of the step by PyTorch's MemTracker, which follows modules and hooks of gradients."""
    with FakeTensorMode():
        model, batch = build_model(spec), make_batch(spec)
        tracker = MemTracker()
        tracker.track_external(model, *batch)
        largest = max(model.parameters(), key=torch.Tensor.numel).detach().view(-1)
        chunk = largest[: default_chunk(largest.device)]
        with unpacked(), tracker:
            if spec.method in ("bp", "bp_checkpoint"):
                loss = last_position_loss(model, *batch)
                Backprop(model.parameters(), lr=LR).descend(loss, PhaseTimer(enabled=False))
            for _ in range({"forward": 1, "mezo": 2}.get(spec.method, 0)):
                perturb_([chunk] * (spec.method == "mezo"), 0, EPS)
                with torch.no_grad():
                    last_position_loss(model, *batch)
                tracker.reset_mod_stats()  # a second forward pass needs it
        snapshot = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return int(snapshot["Total"])


@pytest.mark.parametrize(("hidden", "width"), [(4096, 11008), (5120, 13824)])
def test_feed_forward_width_is_that_of_the_released_models(hidden: int, width: int) -> None:
    assert llama_intermediate_size(hidden) == width


def test_llama_2_7b_has_its_published_parameter_count() -> None:
    assert sum(parameter_table(LLAMA2_7B).values()) == 6_738_415_616


@pytest.mark.parametrize("method", PAPER)
def test_weights_are_counted_exactly(method: Method) -> None:
    found = simulate(StepSpec(SMALL, method, "eager", "float16"))
    assert found.parameters == 2 * llama_parameters(SMALL)
    assert found.total > found.parameters


def test_backpropagation_of_a_model_without_context_is_weights_and_gradients() -> None:
    shape = replace(LLAMA2_7B, context=1, layers=1)
    found = simulate(StepSpec(shape, "bp", "eager", "float16"))
    assert found.gradients == pytest.approx(2 * llama_parameters(shape), rel=0.01)
    assert found.total == pytest.approx(4 * llama_parameters(shape), rel=0.01)


def test_forward_activations_are_those_of_one_layer() -> None:
    shallow, deep = (
        simulate(StepSpec(replace(LLAMA2_7B, layers=n), "mezo", "eager", "float16")) for n in (2, 6)
    )
    assert deep.activations == pytest.approx(shallow.activations, rel=0.01)


@pytest.mark.parametrize("context", [1, 64, 2048])
def test_mezo_takes_what_a_forward_pass_takes(context: int) -> None:
    spec = StepSpec(replace(LLAMA2_7B, layers=4, context=context), "mezo", "eager", "float16")
    forward = tracked(replace(spec, method="forward"))
    mezo = simulate(spec)
    assert mezo.total - mezo.parameters <= 1.02 * (forward - mezo.parameters)


@pytest.mark.parametrize("method", PAPER)
def test_no_tensor_of_sdpa_grows_with_the_square_of_the_context(method: Method) -> None:
    peaks = [
        simulate(StepSpec(replace(SMALL, context=n), method, "sdpa", "float32")).total
        for n in (2048, 4096, 8192)
    ]
    first, second = peaks[1] - peaks[0], peaks[2] - peaks[1]
    assert second == pytest.approx(2 * first, rel=0.01)


def test_eager_attention_keeps_the_scores_and_sdpa_does_not() -> None:
    shape = replace(SMALL, context=512)
    eager, sdpa = (simulate(StepSpec(shape, "bp", a, "float16")) for a in ("eager", "sdpa"))  # type: ignore[arg-type]
    scores = shape.layers * shape.heads * shape.context**2 * 2  # one fp16 copy
    assert eager.total - sdpa.total > scores


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("method", PAPER)
def test_peak_is_that_of_pytorchs_tracker(method: Method, attention: Any) -> None:
    spec = StepSpec(SMALL, method, attention, "float16")
    assert simulate(spec).total == tracked(spec)


@pytest.mark.parametrize("name", ["method", "attention", "dtype"])
def test_unknown_names_are_refused(name: str) -> None:
    good = {"shape": SMALL, "method": "bp", "attention": "eager", "dtype": "float16"}
    with pytest.raises(UsageError, match=f"{name} = 'nonsense': must be one of"):
        StepSpec(**{**good, name: "nonsense"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["context", "layers", "hidden", "heads", "vocabulary", "batch"])
@pytest.mark.parametrize("value", [0, -3, 2.0, True])
def test_a_shape_of_no_whole_positive_numbers_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match="must be a whole number of at least 1"):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]


def test_heads_that_do_not_divide_the_hidden_size_are_refused() -> None:
    with pytest.raises(UsageError, match="H = 5 do not divide the hidden dimension D = 64"):
        replace(SMALL, heads=5)
