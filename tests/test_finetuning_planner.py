"""The planner: formulas with real parameters, and what it proposes for a budget."""

import math

import pytest

from repro.core.errors import UsageError
from repro.finetuning.arms import ARMS
from repro.finetuning.base_models import load_config
from repro.finetuning.planner import propose
from repro.finetuning.sizes import ModelSize, effective_layers, formulas, size_of
from repro.finetuning.step_memory import Setup, account
from repro.memory.shape import DecoderShape
from repro.models.tiny import tiny_llama

SMALL = ModelSize(DecoderShape(1, layers=30, hidden=576, heads=9, vocabulary=49152), 134_515_008)
LARGE = ModelSize(DecoderShape(1, layers=32, hidden=960, heads=15, vocabulary=49152), 361_821_120)
SIZES = {"small": SMALL, "large": LARGE}
WANTED = {"batch": 8, "context": 128, "least_context": 20}


@pytest.mark.parametrize("arm", ARMS)
def test_formulas_are_equations_2_and_3(arm: str) -> None:
    N, L, D, H, V, B, b = 128, 30, 576, 9, 49152, 8, 4
    A = B * L * N * D * (2 + 16 * b + (2 * b + 1) * N * H / D)
    kept = {"bp": 1, "bp_checkpoint": 1 / math.sqrt(L)}.get(arm, 1 / L)
    copies = 2 if arm.startswith("bp") else 1
    found = formulas(SMALL, arm, "float32", batch=B, context=N)  # type: ignore[arg-type]
    weights = b * (12 * L * D**2 + 2 * V * D)
    assert found.published == pytest.approx(copies * weights + kept * A, rel=1e-12)
    assert found.planned == pytest.approx(copies * b * SMALL.parameters + kept * A, rel=1e-12)


def test_the_largest_model_that_fits_as_wanted_is_proposed_first() -> None:
    need = formulas(LARGE, "mezo_1", "float32", batch=8, context=128).planned
    first, second, *_ = propose("mezo_1", SIZES, "float32", **WANTED, budget=need)
    assert (first.model, first.batch, first.context) == ("large", 8, 128)
    assert first.planned_bytes == need
    assert (second.model, second.batch, second.context) == ("small", 8, 128)
    first, *_ = propose("mezo_1", SIZES, "float32", **WANTED, budget=need - 1)
    assert (first.model, first.batch, first.context) == ("small", 8, 128)


def test_where_nothing_fits_as_wanted_the_smallest_model_gets_less() -> None:
    whole = formulas(SMALL, "bp", "float32", batch=8, context=128).planned
    proposals = propose("bp", SIZES, "float32", **WANTED, budget=whole - 1)
    assert {proposal.model for proposal in proposals} == {"small"}
    sizes = [(p.batch * p.context, p.context) for p in proposals]
    assert sizes == sorted(sizes, reverse=True)
    assert (proposals[0].batch, proposals[0].context) == (4, 128)
    assert min(p.context for p in proposals) == 32  # 16 would cut into a question of 20 tokens
    assert all(p.planned_bytes < whole for p in proposals)


def test_too_small_a_budget_is_refused_with_the_smallest_that_would_do() -> None:
    with pytest.raises(UsageError) as refused:
        propose("bp", SIZES, "float32", **WANTED, budget=100e6)
    least = formulas(SMALL, "bp", "float32", batch=1, context=32).planned
    assert "budget of 100 MB: too small for BP" in str(refused.value)
    assert f"({round(least)} bytes), for small in float32 at B = 1, N = 32" in str(refused.value)
    (last,) = propose("bp", SIZES, "float32", **WANTED, budget=least)[-1:]
    assert (last.batch, last.context) == (1, 32)


def test_a_size_is_that_of_the_model() -> None:
    size = size_of(load_config("tiny-llama"))
    model = tiny_llama().model
    assert size.parameters == sum(p.numel() for p in model.parameters())
    assert (size.shape.layers, size.shape.hidden, size.shape.heads) == (2, 32, 4)
    assert size.shape.vocabulary == model.config.vocab_size


def test_effective_layers_give_the_peak_back() -> None:
    planned = formulas(SMALL, "mezo_1", "float32", batch=8, context=128).planned
    found = effective_layers(SMALL, "float32", batch=8, context=128, peak=planned)
    assert found == pytest.approx(1)


@pytest.mark.parametrize("arm", ["bp", "bp_checkpoint", "mezo_1"])
def test_a_step_is_accounted_for_three_times(arm: str) -> None:
    metrics = account(Setup(arm, "tiny-llama", "float32", 4, 48, "cpu", threads=1))  # type: ignore[arg-type]
    weights = 4 * metrics["parameters"]
    assert metrics["simulated_parameters_bytes"] == weights
    assert metrics["measured_parameters_bytes"] == weights
    assert metrics["measured_step_bytes"] > 0
    # tensors are part of what the allocator gave; Python's objects are the rest
    above = metrics["simulated_peak_bytes"] - weights
    assert above <= 1.1 * metrics["measured_step_bytes"]
    assert metrics["planned_bytes"] > weights
    assert metrics["simulated_effective_layers"] > 0
    if arm == "mezo_1":
        assert metrics["simulated_gradients_bytes"] == 0
