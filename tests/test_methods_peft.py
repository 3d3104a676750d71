"""The methods on models of transformers: LoRA adapters of peft, tied weights."""

import copy
from collections.abc import Callable

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from repro.core.errors import UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.log import replay
from repro.methods.mezo import MeZO
from repro.methods.perturbed_weights import Restore
from repro.methods.torch_noise import perturb_
from repro.methods.zeroth_order import ZerothOrder

# peft reads a name that transformers has deprecated
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

EPS = 1e-2


def llama(*, tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=tied,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def lora() -> PeftModel:
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"])
    return get_peft_model(llama(), config)


def loss_of(model: torch.nn.Module) -> Callable[[], torch.Tensor]:
    tokens = torch.randint(0, 32, (4, 8), generator=torch.Generator().manual_seed(1))
    return lambda: model(input_ids=tokens, labels=tokens).loss


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def mezo(model: torch.nn.Module, restore: Restore) -> ZerothOrder:
    return MeZO(model.parameters(), lr=0.05, eps=EPS, clip=1, restore=restore)


def elasticzo(model: torch.nn.Module, restore: Restore) -> ZerothOrder:
    partition = "base_model.model.model.layers.1"
    return ElasticZO(model, partition, lr=0.05, eps=EPS, clip=1, restore=restore)


@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("method", [mezo, elasticzo])
def test_only_adapters_are_trained(
    method: Callable[[torch.nn.Module, Restore], ZerothOrder], restore: Restore
) -> None:
    model = lora()
    before, loss = state(model), loss_of(model)
    initial = loss().item()
    optimizer = method(model, restore)
    for _ in range(80):
        optimizer.step(loss)
    assert loss().item() < initial - 0.03
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == ("lora_" not in name), name


@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_the_log_replays_adapters_and_they_merge(restore: Restore) -> None:
    model = lora()
    start = copy.deepcopy(model)
    optimizer = mezo(model, restore)
    for _ in range(10):
        optimizer.step(loss_of(model))
    replay(optimizer.log, [p for p in start.parameters() if p.requires_grad])
    for trained, replayed in zip(model.parameters(), start.parameters(), strict=True):
        assert torch.equal(trained, replayed)
    adapted = loss_of(model)()
    merged = model.merge_and_unload()
    assert not any("lora_" in name for name in merged.state_dict())
    torch.testing.assert_close(loss_of(merged)(), adapted)


def test_the_log_replays_the_head_of_elasticzo_if_its_tail_is_given() -> None:
    model = lora()
    start = copy.deepcopy(model)
    optimizer = elasticzo(model, "rounded")
    for _ in range(5):
        optimizer.step(loss_of(model))
    again = elasticzo(start, "rounded")
    replay(optimizer.log, again.zo_params)
    for trained, replayed in zip(optimizer.zo_params, again.zo_params, strict=True):
        assert torch.equal(trained, replayed)


def test_tied_weights_are_trained_once() -> None:
    model = llama(tied=True)
    shared = model.model.embed_tokens.weight
    assert model.lm_head.weight is shared
    before = copy.deepcopy(list(model.parameters()))
    optimizer = MeZO(model.parameters(), lr=1e-3, eps=EPS)
    assert sum(parameter is shared for parameter in optimizer.zo_params) == 1
    optimizer.step(loss_of(model))
    ((seed, gradient, lr),) = optimizer.log.entries
    with torch.no_grad():
        perturb_(before, seed, -lr * gradient)
    for trained, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(trained.detach(), expected.detach(), rtol=0, atol=1e-6)


def test_a_tail_that_shares_its_weights_with_the_head_is_refused() -> None:
    tie = r"lm_head\.weight is tied to model\.embed_tokens\.weight, one weight under two names"
    with pytest.raises(UsageError, match=f"partition 'lm_head': {tie}"):
        ElasticZO(llama(tied=True), "lm_head", lr=1e-3, eps=EPS)
    shown = repr(ElasticZO(llama(tied=True), "model.layers.1", lr=1e-3, eps=EPS))
    assert "tied={'lm_head.weight': 'model.embed_tokens.weight'}" in shown


def test_perturbations_are_seen_within_an_outer_autocast() -> None:
    """Autocast keeps casts of the weights, which would hide that they moved."""
    model = llama()
    optimizer = MeZO(model.parameters(), lr=1e-3, eps=EPS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        optimizer.step(loss_of(model))
        assert optimizer.last is not None
        (estimate,) = optimizer.last.estimates
        inside = loss_of(model)().item()
    assert estimate.loss_plus != estimate.loss_minus
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss_of(model)().item() == inside
