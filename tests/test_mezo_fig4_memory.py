"""The memory of a step: by formulas, simulated, measured, and what is proposed for a budget."""

import math
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from repro.artifacts.mezo_fig4.proposals import propose
from repro.finetuning import base_models, step_memory
from repro.finetuning.arms import ARMS, PAPER_ARMS, SPECIFICATIONS, Arm, trains_adapters
from repro.finetuning.base_models import load_architecture
from repro.finetuning.step_memory import ArmStep, memory_of_step
from repro.measurement.records import Record, of_kind, read_run
from repro.memory.setting import Setting
from repro.models.tiny import tiny_llama
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.families import find, members
from repro.planner.formula import estimate
from repro.planner.paper import effective_layers, paper_bytes

SMALL = architecture(find("smollm2-135m").config)  # type: ignore[union-attr]
LARGE = architecture(find("smollm2-360m").config)  # type: ignore[union-attr]
SIZES = {"small": SMALL, "large": LARGE}
WANTED = {"batch": 8, "context": 128, "least_context": 20}


def planned(arm: Arm, size: Architecture, batch: int, context: int) -> float:
    setting = Setting(context=context, batch=batch, format="float32")
    return estimate(size, SPECIFICATIONS[arm].method, setting).total


@pytest.mark.parametrize("arm", PAPER_ARMS)
def test_formulas_are_equations_2_and_3(arm: Arm) -> None:
    N, L, D, H, V, B, b = 128, 30, 576, 9, 49152, 8, 4
    A = B * L * N * D * (2 + 16 * b + (2 * b + 1) * N * H / D)
    kept = {"bp": 1, "bp_checkpoint": 1 / math.sqrt(L)}.get(arm, 1 / L)
    copies = 2 if arm.startswith("bp") else 1
    setting, method = Setting(context=N, batch=B, format="float32"), SPECIFICATIONS[arm].method
    weights = b * (12 * L * D**2 + 2 * V * D)
    assert paper_bytes(SMALL, method, setting) == pytest.approx(
        copies * weights + kept * A, rel=1e-12
    )


def test_the_largest_model_that_fits_as_wanted_is_proposed_first() -> None:
    need = planned("mezo_1", LARGE, 8, 128)
    first, second, *_ = propose("mezo_1", SIZES, "float32", **WANTED, budget=need)
    assert (first.model, first.batch, first.context) == ("large", 8, 128)
    assert (second.model, second.batch, second.context) == ("small", 8, 128)
    first, *_ = propose("mezo_1", SIZES, "float32", **WANTED, budget=need - 1)
    assert (first.model, first.batch, first.context) == ("small", 8, 128)


def test_where_nothing_fits_as_wanted_the_smallest_model_gets_less() -> None:
    whole = planned("bp", SMALL, 8, 128)
    proposals = propose("bp", SIZES, "float32", **WANTED, budget=whole - 1)
    assert {proposal.model for proposal in proposals} == {"small"}
    sizes = [(p.batch * p.context, p.context) for p in proposals]
    assert sizes == sorted(sizes, reverse=True)
    assert (proposals[0].batch, proposals[0].context) == (4, 128)
    assert min(p.context for p in proposals) == 32  # 16 would cut into a question of 20 tokens
    assert all(planned("bp", SMALL, p.batch, p.context) < whole for p in proposals)


@pytest.mark.parametrize(("uncut", "least"), [(20, 32), (1, 1), (0, 1)])
def test_where_nothing_fits_at_all_the_least_is_proposed(uncut: int, least: int) -> None:
    """A template that is one field in truncate has no token that stays."""
    wanted = {**WANTED, "least_context": uncut}
    (proposal,) = propose("bp", SIZES, "float32", **wanted, budget=100e6)
    assert (proposal.model, proposal.batch, proposal.context) == ("small", 1, least)


def test_a_size_is_that_of_the_model() -> None:
    size = load_architecture("tiny-llama")
    model = tiny_llama().model
    assert size.parameters == sum(p.numel() for p in model.parameters())
    assert (size.layers, size.hidden, size.heads) == (2, 32, 4)
    assert size.vocabulary == model.config.vocab_size


def test_effective_layers_give_the_peak_back() -> None:
    setting = Setting(context=128, batch=8, format="float32")
    N, D, H, B, b = 128, 576, 9, 8, 4
    layer = B * N * D * (2 + 16 * b + (2 * b + 1) * N * H / D)
    peak = b * 134_515_008 + 3.5 * layer
    assert effective_layers(SMALL, setting, peak) == pytest.approx(3.5)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "mezo_5"])
def test_a_step_is_accounted_for_three_times(arm: Arm) -> None:
    metrics = memory_of_step(ArmStep(arm, "tiny-llama", "float32", 4, 48, "cpu", threads=1))
    weights = 4 * metrics["parameters"]
    if trains_adapters(arm):  # of rank 16, on the q, k, v, o and feed-forward matrices of 2 blocks
        weights += 4 * 2 * 16 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 64))
    assert metrics["simulated_parameters_bytes"] == weights
    assert metrics["measured_parameters_bytes"] == weights
    assert metrics["measured_step_bytes"] > 0
    # tensors are part of what the allocator gave; Python's objects are the rest
    above = metrics["simulated_peak_bytes"] - weights
    assert above <= 1.1 * metrics["measured_step_bytes"]
    assert metrics["formula_bytes"] == pytest.approx(metrics["simulated_peak_bytes"], rel=0.05)
    assert ("simulated_effective_layers" in metrics) == (arm in ("mezo_1", "mezo_5"))
    if SPECIFICATIONS[arm].estimates and arm != "elasticzo":
        assert metrics["simulated_gradients_bytes"] == 0


@pytest.mark.slow
def test_recorded_formulas_and_simulations_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate each set-up once on the CPU, also those that were planned for a GPU."""
    configs = {member.name: AutoConfig.for_model(**member.config) for member in members()}
    recorded: dict[Any, list[Record]] = {}
    for path in sorted((Path(__file__).parents[1] / "results/mezo_fig4").glob("*.jsonl")):
        for record in of_kind(read_run(path), "plan"):
            point = {**record.point, "device": "cpu"}
            del point["setting"]
            if point["model"] in configs:  # the configurations of others are on the hub
                recorded.setdefault(tuple(sorted(point.items())), []).append(record)
    monkeypatch.setattr(step_memory, "measure_step", lambda *_: None)
    monkeypatch.setattr(base_models, "load_config", configs.__getitem__)
    monkeypatch.setattr(step_memory, "load_config", configs.__getitem__)
    for point, records in recorded.items():
        found = memory_of_step(ArmStep(**dict(point)))
        peak = found["simulated_peak_bytes"]
        # the planner's formula may have become more accurate since
        assert found.get("formula_bytes", peak) == pytest.approx(peak, rel=0.03), point
        numbers = {k for k in found if not k.endswith("_bytes") or "formula" in k}
        numbers |= {"simulated_parameters_bytes"}
        numbers -= {"out_of_memory", "formula_bytes", "simulated_effective_layers"}
        for record in records:
            # another version of PyTorch or transformers may allocate a little more or less
            assert peak == pytest.approx(record.metrics["simulated_peak_bytes"], rel=0.01), point
            assert {k: found[k] for k in numbers} == {k: record.metrics[k] for k in numbers}
    assert recorded
