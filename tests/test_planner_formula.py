"""The planner's formula: what it counts by hand, what autograd keeps, and what always holds."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.memory.analytic import AS_PRINTED, sizes_of
from repro.memory.fake_models import build
from repro.memory.setting import ADAPTER_FORMATS, FORMATS, Setting
from repro.memory.shape import LLAMA2_7B
from repro.models.training_mode import unpacked
from repro.planner import activations
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.families import find, members
from repro.planner.formula import (
    LARGEST_BATCH,
    estimate,
    largest,
    largest_batch,
    longest_context,
    weight_bytes,
)
from repro.planner.methods import TRAINING_METHODS, unsupported_reason
from repro.planner.paper import paper_bytes
from repro.planner.plan import largest_by_secants

LLAMA2 = architecture(find("llama-2-7b").config)  # type: ignore[union-attr]
SMALL = architecture(find("smollm2-135m").config)  # type: ignore[union-attr]
REPRESENTATIVES = (
    "llama-3.2-1b", "mistral-7b", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-2b", "gemma2-2b",
    "gemma3-270m", "gpt2", "pythia-70m", "opt-125m", "phi-1.5", "phi-3-mini", "falcon-7b",
    "stablelm-3b", "olmo2-7b",
)  # fmt: skip
"""One model for each model type; its proportions are kept, its layers not."""


def shallow(name: str, layers: int) -> dict[str, Any]:
    config = dict(find(name).config)  # type: ignore[union-attr]
    key = "n_layer" if config["model_type"] == "gpt2" else "num_hidden_layers"
    return {**config, key: layers, **({"layer_types": None} if "gemma3" in name else {})}


def saved_by_autograd(config: dict[str, Any], setting: Setting) -> int:
    """Bytes of all storages that a forward pass keeps, weights aside: each once."""
    kept: dict[int, torch.UntypedStorage] = {}
    with FakeTensorMode(), unpacked():
        model = build(config, TRAINING_METHODS["bp-sgd"], setting)
        weights = {p.untyped_storage()._cdata for p in model.parameters()}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in weights:
                kept[storage._cdata] = storage
            return tensor

        tokens = torch.zeros(setting.batch, setting.context, dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = model(input_ids=tokens, logits_to_keep=1)
        assert output.logits.requires_grad
        return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_a_block_keeps_what_autograd_saves(name: str, attention: Any) -> None:
    if attention == "sdpa" and architecture(shallow(name, 1)).eager_only:
        pytest.skip("its class has no SDPA")
    setting = Setting(context=128, batch=2, attention=attention)
    one, two = (saved_by_autograd(shallow(name, layers), setting) for layers in (1, 2))
    a = architecture(shallow(name, 1))
    counted = activations.kept(a, setting, adapters=False, masked=a.masked_share(1))
    assert counted == pytest.approx(two - one, rel=0.005)


@pytest.mark.parametrize("fmt", ["float32", "bfloat16"])
def test_a_small_llama_block_keeps_what_autograd_saves(fmt: Any) -> None:
    setting = Setting(context=64, batch=2, format=fmt)
    one, two = (saved_by_autograd(shallow("smollm2-135m", layers), setting) for layers in (1, 2))
    counted = activations.kept(SMALL, setting, adapters=False)
    assert counted == pytest.approx(two - one, rel=0.005)


def test_the_least_step_is_weights_and_gradients() -> None:
    found = estimate(LLAMA2, TRAINING_METHODS["bp-sgd"], Setting(context=1))
    assert found.moment == "gradients complete"
    assert found.total == pytest.approx(2 * 2 * 6_738_415_616, rel=1e-5)
    adam = estimate(LLAMA2, TRAINING_METHODS["bp-adam"], Setting(context=1))
    assert adam.total == pytest.approx(4 * 2 * 6_738_415_616, rel=0.02)  # and two temporaries


def test_mezo_on_llama_2_by_hand() -> None:
    found = estimate(LLAMA2, TRAINING_METHODS["mezo"], Setting(context=2048))
    # embedded tokens, the block's input, the stream, the norm's output; gate, up, product
    tensors = 2 * 2048 * (4 * 4096 + 3 * 11008)
    tables = 2 * 2 * 2048 * 128
    assert found.total == 2 * 6_738_415_616 + tensors + tables + 8 * 2048


def test_adapters_of_another_format_save_what_the_page_says() -> None:
    page = " ".join((Path(__file__).parents[1] / "docs" / "plan.md").read_text().split())
    for weights, said in (
        ("bfloat16", "saves {} % of the memory without checkpointing, {} % with it and {} %"),
        ("4bit", "beside 4-bit weights {}, {} and {} %"),
    ):
        saved = []
        for slug in ("lora", "lora-checkpoint", "mezo-lora"):
            wide, narrow = (
                estimate(LLAMA2, TRAINING_METHODS[slug], Setting(format=weights, adapters=adapters))  # type: ignore[arg-type]
                for adapters in ADAPTER_FORMATS
            )
            saved.append(round(100 * (1 - narrow.total / wide.total)))
        assert said.format(*saved) in page


def test_parts_add_up_and_are_whole() -> None:
    found = estimate(LLAMA2, TRAINING_METHODS["lora"], Setting(format="4bit")).as_dict()
    moment, total = found.pop("moment"), found.pop("total")
    assert moment in ("final norm", "backward pass begins", "block computed")
    assert all(isinstance(part, int) for part in found.values())
    assert sum(found.values()) == pytest.approx(total, abs=3)  # type: ignore[arg-type]


SETTINGS = st.builds(
    Setting,
    context=st.integers(1, 1024),
    batch=st.integers(1, 16),
    format=st.sampled_from(FORMATS),
    attention=st.sampled_from(["sdpa", "eager"]),
    loss=st.sampled_from(["last", "all"]),
    rank=st.integers(1, 64),
    adapters=st.sampled_from(ADAPTER_FORMATS),
    tail=st.integers(0, 4),
)
ARCHITECTURES = st.sampled_from([architecture(member.config) for member in members()])


def cases(a: Architecture, setting: Setting) -> Iterator[tuple[str, float]]:
    for slug, method in TRAINING_METHODS.items():
        if unsupported_reason(method, setting) is None:
            yield slug, estimate(a, method, setting).total


@given(a=ARCHITECTURES, setting=SETTINGS)
def test_no_method_takes_less_than_its_weights_nor_less_for_more(
    a: Architecture, setting: Setting
) -> None:
    grown = {
        "context": replace(setting, context=setting.context + 1),
        "batch": replace(setting, batch=setting.batch + 1),
    }
    larger = {name: dict(cases(a, more)) for name, more in grown.items()}
    for slug, total in cases(a, setting):
        assert total >= weight_bytes(a, setting)
        for name, totals in larger.items():
            assert totals[slug] > total, name


@given(a=ARCHITECTURES, setting=SETTINGS)
def test_methods_are_in_their_order(a: Architecture, setting: Setting) -> None:
    need = dict(cases(a, setting))
    assert need["mezo-lora"] <= need["lora"]
    if not setting.quantised:
        assert need["mezo"] <= need["elasticzo"] <= need["bp-sgd"] + need["mezo"]
        assert need["bp-sgd"] < need["bp-adam"]
        assert need["mezo"] <= need["bp-sgd"]


@given(
    a=ARCHITECTURES,
    setting=SETTINGS,
    slug=st.sampled_from(sorted(TRAINING_METHODS)),
    budget=st.floats(1e8, 1e12),
)
def test_what_is_found_fits_and_one_more_does_not(
    a: Architecture, setting: Setting, slug: str, budget: float
) -> None:
    method = TRAINING_METHODS[slug]
    context = longest_context(a, method, setting, budget)
    batch = largest_batch(a, method, setting, budget)

    def needs(**changed: int) -> float:
        return estimate(a, method, replace(setting, **changed)).total

    assert context == 0 or needs(context=context) <= budget
    assert context == a.positions or needs(context=context + 1) > budget
    assert batch == 0 or needs(batch=batch) <= budget
    assert batch == LARGEST_BATCH or needs(batch=batch + 1) > budget


@pytest.mark.parametrize("limit", [1, 2, 3, 17])
def test_the_largest_number_is_found_wherever_it_lies(limit: int) -> None:
    for bound in range(limit + 1):
        assert largest(lambda n, bound=bound: n <= bound, limit) == bound


def test_the_papers_formula_is_the_papers() -> None:
    setting = Setting(format="float16")
    s = sizes_of(LLAMA2_7B, 2)
    assert paper_bytes(LLAMA2, TRAINING_METHODS["bp-sgd"], setting) == float(AS_PRINTED.bp_bytes(s))
    assert paper_bytes(LLAMA2, TRAINING_METHODS["checkpoint-sgd"], setting) == float(
        AS_PRINTED.bp_bytes(s, checkpointing=True)
    )
    assert paper_bytes(LLAMA2, TRAINING_METHODS["mezo"], setting) == float(AS_PRINTED.mezo_bytes(s))
    for slug in ("bp-adam", "lora", "mezo-lora", "elasticzo"):
        assert paper_bytes(LLAMA2, TRAINING_METHODS[slug], setting) is None


@pytest.mark.parametrize("fmt", ["int8", "4bit"])
def test_whole_models_are_not_trained_on_quantised_weights(fmt: Any) -> None:
    refused = {
        slug
        for slug, method in TRAINING_METHODS.items()
        if unsupported_reason(method, Setting(format=fmt))
    }
    assert refused == {
        "bp-sgd", "bp-adam", "checkpoint-sgd", "checkpoint-adam", "elasticzo", "mezo",
    }  # fmt: skip


@pytest.mark.parametrize(
    "cost",
    [
        lambda x: 1000 + 7 * x,
        lambda x: 50 + 3 * x + x * x // 10,
        lambda x: 4096 * (1 + x // 512),
        lambda x: max(5000, 2 * x),
    ],
    ids=["affine", "square", "steps", "flat, then steep"],
)
@pytest.mark.parametrize("budget", [0, 1000, 5000, 9999, 10**6])
@pytest.mark.parametrize("known", [1, 300])
def test_secants_find_what_halving_finds(
    cost: Callable[[int], int], budget: int, known: int
) -> None:
    asked: list[int] = []

    def counted(x: int) -> int:
        asked.append(x)
        return cost(x)

    found = largest_by_secants(counted, budget, 5000, (known, cost(known)))
    assert found == largest(lambda x: cost(x) <= budget, 5000)
    assert len(asked) == len({known, *asked}) - 1


def test_a_known_number_above_the_limit_does_not_raise_it() -> None:
    asked = []

    def cost(x: int) -> float:
        asked.append(x)
        return float(x)

    assert largest_by_secants(cost, 1000, 100, (200, 200.0)) == 100
    assert not asked  # what costs more fits, so the limit does
    assert largest_by_secants(cost, 150, 100, (200, 200.0)) == 100
    assert largest_by_secants(cost, 50, 100, (200, 200.0)) == 50


def test_a_number_that_no_step_has_is_left_out() -> None:
    assert largest_by_secants(lambda _: math.inf, 100, 100, (200, 200.0)) == 0
    assert largest_by_secants(lambda x: x if x < 70 else math.inf, 90, 100, (1, 1.0)) == 69
