"""The yes/no classifier against the model's own logits, and the arms against each other."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    CohereConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    OPTConfig,
    PersimmonConfig,
    PhiConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D

from made_up import fine_tuning
from reading import HostReads
from repro.core.errors import ReproError, UsageError
from repro.core.names import Dtype
from repro.finetuning.arms import ARMS, Arm
from repro.finetuning.base_models import random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.fine_tune import step_flops
from repro.finetuning.learner import LanguageModelLearner
from repro.methods.elasticzo import ElasticZO
from repro.models.adapters import merge_adapters
from repro.models.training_mode import without_dropout

ANSWERS = np.array([11, 42], np.int32)
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
}
ALIKE = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
GEMMA = {**SIZES, "head_dim": 8, "sliding_window": 8}
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "gpt2": GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4),
    "gemma2": Gemma2Config(**GEMMA, final_logit_softcapping=3.0),
    "gemma3": Gemma3TextConfig(**GEMMA),
}
RUN = fine_tuning(
    arm="bp", context=64, lr=0.1, evaluations=2, tuning_items=32, monitored_items=32, final_items=64
)


def model(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    made = random_model(CONFIGS[family], "float32")
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return made.eval()


def batch(widths: tuple[int, ...] = (5, 16, 12), *, padding: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.full((len(widths), max(widths)), padding)
    for row, width in zip(tokens, widths, strict=True):
        row[:width] = torch.randint(0, 64, (width,), generator=generator)
    return Batch(tokens, torch.tensor(widths) - 1, torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("family", list(CONFIGS))
def test_logits_are_the_model_s_own_after_each_prompt(family: str) -> None:
    network, given = model(family), batch()
    found = AnswerClassifier(network, ANSWERS).logits(given)
    for row, last, logits in zip(given.tokens, given.last, found, strict=True):
        alone = network(input_ids=row[None, : last + 1]).logits[0, -1]  # without padding
        torch.testing.assert_close(logits, alone[ANSWERS], rtol=1e-5, atol=1e-5)


HEAD = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
OWN_HEAD: dict[str, PreTrainedConfig] = {
    "scaled by 0.0625": CohereConfig(**HEAD, intermediate_size=48, logit_scale=0.0625),
    "divided by 8": GraniteConfig(**HEAD, intermediate_size=48, logits_scaling=8.0),
    "a layer before the output": BertConfig(**HEAD, intermediate_size=48, is_decoder=True),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("head", list(OWN_HEAD))
def test_a_model_with_more_than_an_output_layer_is_refused(head: str, dtype: Dtype) -> None:
    network = random_model(OWN_HEAD[head], dtype)
    with pytest.raises(UsageError, match=r"logits from its output layer differ by .* from its own"):
        AnswerClassifier(network, ANSWERS)


def test_a_model_whose_logits_are_no_numbers_is_refused() -> None:
    network = model("llama")
    network.get_input_embeddings().weight.data[:] = torch.nan
    with pytest.raises(ReproError, match="the logits of LlamaForCausalLM are not finite"):
        AnswerClassifier(network, ANSWERS)


@pytest.mark.parametrize("family", list(CONFIGS))
def test_the_check_of_the_logits_leaves_no_trace(family: str) -> None:
    network = model(family).bfloat16().train()
    network.get_input_embeddings().eval()
    modes = [module.training for module in network.modules()]
    state = torch.get_rng_state()
    AnswerClassifier(network, ANSWERS)
    assert [module.training for module in network.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("family", list(CONFIGS))
def test_padding_is_never_read(family: str) -> None:
    classifier = AnswerClassifier(model(family), ANSWERS)
    assert torch.equal(classifier.logits(batch()), classifier.logits(batch(padding=63)))


@pytest.mark.parametrize("family", list(CONFIGS))
def test_a_step_reads_its_losses_and_nothing_else_on_the_host(family: str) -> None:
    learner = LanguageModelLearner(model(family), ANSWERS, replace(RUN, arm="mezo_5", lr=1e-6))
    with HostReads() as reads:
        learner.classifier.loss(batch())
        assert reads.count == 0
        learner.step(batch())
    assert reads.count == 10 + 5  # the losses, and the seeds, which are drawn on the host


def test_elasticzo_trains_a_model_that_registers_its_last_norm_before_the_blocks() -> None:
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
        word_embed_proj_dim=32,
    )  # fmt: skip
    network = random_model(config, "float32")
    learner = LanguageModelLearner(network, ANSWERS, replace(RUN, arm="elasticzo", lr=1e-3))
    optimizer = learner.optimizer
    assert isinstance(optimizer, ElasticZO)
    tail = {
        name
        for name, value in network.named_parameters()
        if any(value is other for other in optimizer.bp_params)
    }
    assert all("layers.1." in name or "final_layer_norm" in name for name in tail)
    assert {"model.decoder.final_layer_norm.weight"} < tail
    assert learner.step(batch()).loss > 0


def test_loss_and_score_are_of_two_answers() -> None:
    classifier, given = AnswerClassifier(model("llama"), ANSWERS), batch()
    no, yes = classifier.logits(given).double().unbind(1)
    wanted = torch.log1p(torch.exp(torch.stack([yes - no, no - yes], 1)))  # of answer no, of yes
    losses = wanted[torch.arange(3), given.labels]
    assert classifier.loss(given).item() == pytest.approx(losses.mean().item(), rel=1e-5)
    loss, right = classifier.score(given)
    assert loss.item() == pytest.approx(losses.sum().item(), rel=1e-5)
    assert torch.equal(right, (yes > no).long() == given.labels)


DROPOUT: dict[str, Callable[[], PreTrainedConfig]] = {
    "opt": lambda: OPTConfig(
        vocab_size=64,
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        layerdrop=0.5,
    ),
    "falcon": lambda: FalconConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        hidden_dropout=0.3,
        attention_dropout=0.3,
    ),
    "phi": lambda: PhiConfig(**SIZES, resid_pdrop=0.3, embd_pdrop=0.3, attention_dropout=0.3),
    "llama": lambda: LlamaConfig(**SIZES, attention_dropout=0.3),
    "persimmon": lambda: PersimmonConfig(**ALIKE, hidden_dropout=0.3, attention_dropout=0.3),
    "gpt2": lambda: GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4),
}


@pytest.mark.parametrize("family", list(DROPOUT))
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_is_off_in_training_mode(family: str, attention: str) -> None:
    config = DROPOUT[family]()
    config._attn_implementation = attention
    torch.manual_seed(0)
    classifier = AnswerClassifier(random_model(config, "float32").train(), ANSWERS)
    assert not _says_the_same(classifier)  # dropout was on
    without_dropout(classifier.model)
    assert classifier.model.training
    assert _says_the_same(classifier)


def _says_the_same(classifier: AnswerClassifier) -> bool:
    """Tell whether five passes over a batch, as layerdrop spares some, are all alike."""
    first, *others = (classifier.logits(batch()) for _ in range(5))
    return all(torch.equal(first, other) for other in others)


def _flipped(learner: LanguageModelLearner) -> dict[str, bool]:
    """Do a step; return which parameters it changed."""
    before = {name: value.detach().clone() for name, value in learner.model.named_parameters()}
    learner.step(batch())
    return {
        name: not torch.equal(value, before[name])
        for name, value in learner.model.named_parameters()
    }


@pytest.mark.parametrize("arm", ["lora", "mezo_lora"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_adapters_alone_are_trained_and_start_as_the_base_model(family: str, arm: Arm) -> None:
    """B = 0 at first: the output is the base model's, and A has no gradient (Hu et al. 2021)."""
    base = AnswerClassifier(model(family), ANSWERS).logits(batch())
    learner = LanguageModelLearner(model(family), ANSWERS, replace(RUN, arm=arm, lr=1e-2))
    assert torch.equal(learner.classifier.logits(batch()), base)
    changed = _flipped(learner)
    matrices = sum(
        isinstance(module, torch.nn.Linear | Conv1D) and "lm_head" not in name
        for name, module in model(family).named_modules()
    )
    assert sum(changed[name] for name in changed if name.endswith("up.weight")) == matrices
    assert not any(changed[name] for name in changed if ".up." not in name and ".down." not in name)
    adapted = learner.classifier.logits(batch())
    assert not torch.equal(adapted, base)
    merge_adapters(learner.model)
    names = [{name for name, _ in m.named_parameters()} for m in (learner.model, model(family))]
    assert names[0] == names[1]
    torch.testing.assert_close(learner.classifier.logits(batch()), adapted, rtol=1e-4, atol=1e-4)


def test_adapters_are_float32_beside_bfloat16_and_drawn_from_the_seed() -> None:
    drawn = []
    for seed in (0, 0, 1):
        network = random_model(CONFIGS["llama"], "bfloat16")
        state = torch.get_rng_state()
        learner = LanguageModelLearner(
            network, ANSWERS, replace(RUN, arm="lora", dtype="bfloat16", seed=seed)
        )
        assert torch.equal(torch.get_rng_state(), state)
        trained = [p for p in learner.model.parameters() if p.requires_grad]
        assert {p.dtype for p in trained} == {torch.float32}
        assert learner.classifier.logits(batch()).isfinite().all()
        drawn.append(torch.cat([p.detach().flatten() for p in trained]))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_elasticzo_backpropagates_the_last_block_and_what_follows() -> None:
    """The gradient of the tail at theta + eps z is PyTorch's own; the rest moves along z."""
    lr = 0.1
    learner = LanguageModelLearner(
        model("llama"), ANSWERS, replace(RUN, arm="elasticzo", lr=lr, eps=1e-3)
    )
    optimizer = learner.optimizer
    assert isinstance(optimizer, ElasticZO)
    names = {id(value): name for name, value in learner.model.named_parameters()}
    tail = [names[id(value)] for value in optimizer.bp_params]
    assert {name.rsplit(".", 3)[0] if "layers" in name else name for name in tail} >= {
        "model.norm.weight",
        "lm_head.weight",
    }
    assert all("layers.1." in name for name in tail if "layers" in name)
    assert sum("layers.1." in name for name in tail) == 9  # 4 + 3 matrices, 2 norms
    before = [value.detach().clone() for value in optimizer.zo_params]
    learner.step(batch())
    (entry,) = optimizer.log.entries
    moved = torch.cat(
        [(b - value).flatten() for b, value in zip(before, optimizer.zo_params, strict=True)]
    )
    assert moved.std().item() == pytest.approx(lr * abs(entry.gradient), rel=0.05)


def test_checkpointing_changes_no_weight() -> None:
    weights = []
    for arm in ("bp", "bp_checkpoint"):
        learner = LanguageModelLearner(model("llama"), ANSWERS, replace(RUN, arm=arm))
        for _ in range(3):
            learner.step(batch())
        weights.append([p.detach().clone() for p in learner.model.parameters()])
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_flops_of_the_arms_are_the_textbook_s() -> None:
    """Two FLOPs a weight and token, twice that for a backward pass, and attention's products."""
    layers, D, wide, H, head, V, B, N = 2, 32, 64, 4, 8, _vocabulary(), 3, 80
    matrices = layers * (2 * D * D + 2 * D * D // 2 + 3 * D * wide)
    attention = layers * 2 * 2 * B * H * N * N * head
    forward = 2 * B * N * matrices + attention + 2 * B * D * V
    counted = {arm: step_flops(arm, "tiny-llama", B)(N) for arm in ARMS}
    assert counted["mezo_1"] == 2 * forward
    assert counted["mezo_5"] == 10 * forward
    backward = counted["bp"] - forward
    assert 1.9 * forward < backward < 2.3 * forward  # flash attention computes its scores again
    blocks = forward - 2 * B * D * V
    assert counted["bp_checkpoint"] == pytest.approx(counted["bp"] + blocks, rel=0.05)
    shapes = [(D, D), (D, D // 2), (D, D // 2), (D, D), *[(D, wide)] * 2, (wide, D)]
    adapters = 2 * B * N * 16 * layers * sum(inputs + outputs for inputs, outputs in shapes)
    assert counted["mezo_lora"] == 2 * (forward + adapters)
    assert counted["lora"] < counted["bp_checkpoint"] + 4 * adapters
    tail = 2 * (blocks / layers)  # backward through one block; its first input needs no gradient
    assert counted["elasticzo"] == pytest.approx(2 * forward + tail, rel=0.05)


def _vocabulary() -> int:
    from repro.models.tiny import tiny_config

    return int(tiny_config().vocab_size)
