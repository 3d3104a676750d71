"""Simulated steps of the planner against another tracker, hand counts, and peft."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.artifacts.shared.decoder_steps import simulate_decoder_step
from repro.core.errors import ReproError, UsageError
from repro.memory import simulation
from repro.memory.fake_models import build, partition_before
from repro.memory.setting import ADAPTER_FORMATS, Setting
from repro.memory.shape import DecoderShape
from repro.memory.simulation import StepError, simulate
from repro.memory.step import StepSpec
from repro.memory.storages import StorageTracker
from repro.methods.parameters import split_at
from repro.planner.configurations import architecture
from repro.planner.families import find
from repro.planner.formula import estimate, weight_bytes
from repro.planner.methods import PAPER, TRAINING_METHODS, unsupported_reason
from repro.planner.models import Model
from repro.planner.plan import plan_model

ROOT = Path(__file__).parents[1]
SHAPE = DecoderShape(context=64, layers=2, hidden=64, heads=4, vocabulary=128, batch=2)
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 172,  # as repro.models.decoder has it for D = 64
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
SETTING = Setting(context=64, batch=2, attention="eager")


@pytest.mark.parametrize("method", PAPER)
def test_a_llama_is_that_of_the_papers_sizes(method: str) -> None:
    spec = StepSpec(SHAPE, method, "eager", "bfloat16")  # type: ignore[arg-type]
    found = simulate(LLAMA, PAPER[method], SETTING).as_metrics("peak")
    assert found == simulate_decoder_step(spec)


@pytest.mark.parametrize("fmt", ["bfloat16", "int8", "4bit"])
@pytest.mark.parametrize("slug", ["lora", "mezo-lora"])
def test_weights_and_adapters_are_counted_as_by_the_formula(slug: str, fmt: Any) -> None:
    setting = Setting(context=64, format=fmt)
    a = architecture(LLAMA)
    weights, adapters = weight_bytes(a, setting), a.adapter_parameters(setting.rank)
    found = simulate(LLAMA, TRAINING_METHODS[slug], setting)
    assert found.parameters == weights + 4 * adapters
    narrow = simulate(LLAMA, TRAINING_METHODS[slug], replace(setting, adapters="activations"))
    assert narrow.parameters == weights + 2 * adapters


def test_adam_keeps_two_copies_of_what_is_trained() -> None:
    found = simulate(LLAMA, TRAINING_METHODS["bp-adam"], SETTING)
    assert found.optimizer_state == 2 * 2 * architecture(LLAMA).parameters


@pytest.mark.parametrize(("blocks", "parameters"), [(0, 64), (1, 64 + 49_536), (2, 64 + 99_072)])
def test_tail_is_the_last_blocks_final_norm_and_head(blocks: int, parameters: int) -> None:
    block = 4 * 64 * 64 + 3 * 64 * 172 + 2 * 64
    assert block == 49_536
    with FakeTensorMode():
        model = build(LLAMA, TRAINING_METHODS["elasticzo"], SETTING)
        _, tail = split_at(model, partition_before(model, blocks))
    found = sum(p.numel() for p in tail)
    assert found == parameters + 128 * 64
    assert found == architecture(LLAMA).tail_parameters(blocks)


def test_a_tied_head_is_left_to_the_zeroth_order_part() -> None:
    tied = {**LLAMA, "tie_word_embeddings": True}
    with FakeTensorMode():
        model = build(tied, TRAINING_METHODS["elasticzo"], SETTING)
        _, tail = split_at(model, partition_before(model, 0))
    assert [p.numel() for p in tail] == [64]
    assert architecture(tied).tail_parameters(0) == 64


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers renamed
def test_adapters_are_those_of_peft() -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    values = {key: value for key, value in LLAMA.items() if key != "model_type"}
    with torch.device("meta"):
        model = peft.get_peft_model(AutoModelForCausalLM.from_config(LlamaConfig(**values)), config)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert architecture(LLAMA).adapter_parameters(8) == trained


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("adapters", ADAPTER_FORMATS)
@pytest.mark.parametrize("slug", ["lora", "lora-checkpoint"])
def test_formula_is_near_a_step_of_peft(slug: str, adapters: Any) -> None:
    """Of real tensors, without Adam's state; peft multiplies and adds the adapters itself."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, LlamaConfig

    values = {key: value for key, value in LLAMA.items() if key != "model_type"}
    values |= {"max_position_embeddings": 256, "num_hidden_layers": 3}
    config = LlamaConfig(**values, use_cache=False)
    model = peft.get_peft_model(
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16),
        peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"),
        autocast_adapter_dtype=adapters == "float32",
    )
    if slug == "lora-checkpoint":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    tokens, answers = torch.zeros(8, 256, dtype=torch.long), torch.zeros(8, dtype=torch.long)
    tracker = StorageTracker(lambda _: "activations")
    tracker.add([*model.state_dict(keep_vars=True).values()], "parameters")
    with tracker:
        logits = model(input_ids=tokens, logits_to_keep=1).logits[:, -1]
        torch.nn.functional.cross_entropy(logits.float(), answers).backward()
    setting = Setting(context=256, batch=8, adapters=adapters)
    sizes = architecture({"model_type": "llama", **values})
    formula = estimate(sizes, TRAINING_METHODS[slug], setting)
    without_adam = formula.total - formula.optimizer_state
    assert without_adam == pytest.approx(tracker.peak().total, rel=0.015)


@pytest.mark.parametrize("slug", TRAINING_METHODS)
def test_formula_is_near_the_simulation(slug: str) -> None:
    setting = Setting(context=512, batch=4)
    wide = {**LLAMA, "max_position_embeddings": 512}
    found = simulate(wide, TRAINING_METHODS[slug], setting).total
    assert estimate(architecture(wide), TRAINING_METHODS[slug], setting).total == pytest.approx(
        found, rel=0.03
    )


@pytest.mark.parametrize(
    ("context", "batch"),
    [(1024, 8), *(pytest.param(n, b, marks=pytest.mark.slow) for n, b in ((128, 8), (2048, 1)))],
)
@pytest.mark.parametrize(
    "name",
    ["gpt2", "opt-125m", "falcon-7b", "pythia-160m", "llama-3.2-1b", "gemma-2b", "gemma2-2b"],
)
def test_formula_of_mezo_with_eager_attention_is_the_simulation(
    name: str, context: int, batch: int
) -> None:
    """Scores, masks and the probabilities that some blocks return outweigh all else there.

    Four blocks are enough for the peak, and leave the weights a smaller part of it.
    """
    setting = Setting(context=context, batch=batch, attention="eager")
    whole = find(name).config  # type: ignore[union-attr]
    layers = "n_layer" if "n_layer" in whole else "num_hidden_layers"
    config = {**whole, layers: 4}
    found = simulate(config, TRAINING_METHODS["mezo"], setting).total
    formula = estimate(architecture(config), TRAINING_METHODS["mezo"], setting).total
    assert formula == pytest.approx(found, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["bp-sgd", "lora", "lora-checkpoint", "elasticzo", "mezo-lora"])
@pytest.mark.parametrize(
    "setting",
    [
        Setting(context=512, batch=2, attention="eager"),
        Setting(context=512, batch=2, format="float32"),
        Setting(context=1024, loss="all"),
        Setting(context=512, batch=8, format="4bit", rank=64),
        Setting(context=128, tail=0),
    ],
    ids=["eager", "float32", "loss of all", "4-bit", "head alone"],
)
@pytest.mark.parametrize("name", ["gpt2", "opt-125m"])
def test_formula_is_near_the_simulation_in_other_settings(
    name: str, setting: Setting, slug: str
) -> None:
    if unsupported_reason(TRAINING_METHODS[slug], setting) is not None:
        pytest.skip("makes no sense on these weights")
    if (name, slug) == ("opt-125m", "elasticzo"):
        pytest.skip("refused: OPT registers its last norm before the blocks")
    config = find(name).config  # type: ignore[union-attr]
    found = simulate(config, TRAINING_METHODS[slug], setting).total
    assert estimate(architecture(config), TRAINING_METHODS[slug], setting).total == pytest.approx(
        found, rel=0.03
    )


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["bp-sgd", "lora-checkpoint", "elasticzo"])
@pytest.mark.parametrize("loss", ["last", "all"])
@pytest.mark.parametrize(
    "name", ["falcon-7b", "gemma2-2b", "gemma3-270m", "llama-2-7b", "qwen3-0.6b"]
)
def test_formula_with_eager_attention_is_near_the_simulation(
    name: str, loss: Any, slug: str
) -> None:
    setting = Setting(context=1024, batch=2, attention="eager", loss=loss)
    config = {**find(name).config, "num_hidden_layers": 3}  # type: ignore[union-attr]
    found = simulate(config, TRAINING_METHODS[slug], setting).total
    assert estimate(architecture(config), TRAINING_METHODS[slug], setting).total == pytest.approx(
        found, rel=0.04
    )


@pytest.mark.parametrize(
    ("name", "slug", "attention"),
    [
        ("opt-125m", "mezo-lora", "sdpa"),
        ("opt-125m", "lora", "eager"),
        ("gpt2", "lora", "sdpa"),
        ("gpt2", "lora-checkpoint", "sdpa"),
        ("phi-3-mini", "lora-checkpoint", "sdpa"),
        ("phi-3-mini", "mezo", "sdpa"),
        ("phi-3-mini", "mezo-lora", "sdpa"),
        ("llama-3.2-1b", "mezo", "sdpa"),
        ("llama-3.2-1b", "mezo-lora", "sdpa"),
        ("falcon-7b", "lora", "sdpa"),
        ("falcon-7b", "mezo-lora", "eager"),
        ("stablelm-3b", "lora", "sdpa"),
        ("gemma3-270m", "lora-checkpoint", "sdpa"),
        ("olmo2-7b", "mezo-lora", "sdpa"),
        ("olmo2-7b", "mezo", "sdpa"),
        ("olmo2-7b", "elasticzo", "sdpa"),
        ("olmo2-7b", "lora-checkpoint", "sdpa"),
        ("qwen2.5-0.5b", "elasticzo", "sdpa"),
        ("phi-1.5", "mezo", "eager"),
        ("stablelm-3b", "mezo", "eager"),
    ],
)
def test_formula_is_near_the_simulation_where_activations_exceed_the_weights(
    name: str, slug: str, attention: Any
) -> None:
    config = {**find(name).config, "num_hidden_layers": 2, "vocab_size": 1024}  # type: ignore[union-attr]
    config |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    if "n_layer" in config:
        config["n_layer"] = 2
    for adapters in ADAPTER_FORMATS if "lora" in slug else ADAPTER_FORMATS[:1]:
        setting = Setting(context=512, batch=64, attention=attention, adapters=adapters)
        found = simulate(config, TRAINING_METHODS[slug], setting).total
        formula = estimate(architecture(config), TRAINING_METHODS[slug], setting)
        assert formula.weights < 0.5 * found
        near = {"float32": 0.02, "activations": 0.06}[adapters]
        assert formula.total == pytest.approx(found, rel=near)


_FALCON = {
    "model_type": "falcon", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
    "vocab_size": 512,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"multi_query": False},
        {"parallel_attn": False},
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ],
    ids=["one norm", "heads of their own", "sequential", "two norms", "new, one norm"],
)
@pytest.mark.parametrize("slug", ["bp-sgd", "mezo", "mezo-lora"])
def test_every_form_of_falcon_is_near_the_simulation(changes: dict[str, Any], slug: str) -> None:
    config, setting = {**_FALCON, **changes}, Setting(context=1024, batch=4)
    found = simulate(config, TRAINING_METHODS[slug], setting).total
    formula = estimate(architecture(config), TRAINING_METHODS[slug], setting).total
    assert formula == pytest.approx(found, rel=0.005)


def test_a_context_beyond_learned_positions_is_refused_outside_the_formula() -> None:
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 96}
    model = Model("some", "made up", {"model_type": "gpt_bigcode", **sizes})
    methods, report = [TRAINING_METHODS["mezo"]], lambda _: None
    with pytest.raises(UsageError, match=r"ends at 128; give --context 128 or less"):
        plan_model(model, methods, Setting(context=129), 1e9, report=report)
    (row,) = plan_model(model, methods, Setting(context=128), 1e9, report=report).rows
    assert (row.simulated is not None, row.longest_context) == (True, 128)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96}
    sizes |= {"intermediate_size": 96, "max_position_embeddings": 130, "pad_token_id": 1}
    roberta = Model("some", "made up", {"model_type": "roberta", **sizes})
    with pytest.raises(UsageError, match=r"ends at 128; give --context 128 or less"):
        plan_model(roberta, methods, Setting(context=129), 1e9, report=report)


def windowed(model_type: str, **settings: Any) -> dict[str, Any]:
    small = {
        "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 512, "vocab_size": 512,
        "max_position_embeddings": 4096, "head_dim": 64, "sliding_window": 256,
    }  # fmt: skip
    return {"model_type": model_type, **small, **settings}


@pytest.mark.parametrize(
    "config",
    [
        windowed(
            "qwen2",
            use_sliding_window=True,
            layer_types=3 * ["sliding_attention", "full_attention"],
        ),
        windowed(
            "qwen3",
            use_sliding_window=True,
            max_window_layers=0,
            layer_types=6 * ["full_attention"],
        ),
        windowed("qwen2", use_sliding_window=True, max_window_layers=4),
        windowed("gemma3_text", sliding_window_pattern=2),
    ],
    ids=["alternating", "all full", "from block 4", "pattern 2"],
)
def test_windows_are_those_of_the_models_class(config: dict[str, Any]) -> None:
    setting = Setting(context=2048)
    found = simulate(config, TRAINING_METHODS["bp-sgd"], setting).total
    formula = estimate(architecture(config), TRAINING_METHODS["bp-sgd"], setting).total
    assert formula == pytest.approx(found, rel=0.03)


def test_a_formula_stays_if_the_simulation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StepError("no kernel")

    monkeypatch.setattr(simulation, "simulate", fails)
    falcon = {
        "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_kv_heads": 2, "vocab_size": 96,
        "new_decoder_architecture": True, "num_ln_in_parallel_attn": 2,
    }  # fmt: skip
    model = Model("some", "made up", falcon)
    methods = [TRAINING_METHODS["mezo"]]
    (with_simulation,), (without,) = (
        plan_model(model, methods, Setting(context=64), 1e9, simulated=simulated).rows
        for simulated in (True, False)
    )
    assert without.estimate is not None
    assert with_simulation.estimate == without.estimate
    assert with_simulation.simulated is None
    assert with_simulation.warning
    assert "no kernel" in with_simulation.warning


@pytest.mark.parametrize(
    ("slug", "setting", "percent"),
    [
        ("elasticzo", Setting(context=300, batch=3, attention="eager"), 5),
        ("checkpoint-sgd", Setting(context=300, batch=3, attention="eager"), 2),
    ],
)
def test_formula_is_as_far_off_as_the_page_says_of_a_small_llama(
    slug: str, setting: Setting, percent: int
) -> None:
    small = {
        **LLAMA, "hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 6, "intermediate_size": 512, "vocab_size": 4000,
        "max_position_embeddings": 2048,
    }  # fmt: skip
    found = simulate(small, TRAINING_METHODS[slug], setting).as_metrics()["total_bytes"]
    formula = estimate(architecture(small), TRAINING_METHODS[slug], setting).total
    assert round(100 * (formula / found - 1)) == percent
    page = (ROOT / "docs" / "plan.md").read_text()
    said = page.partition("For a Llama of 3.3 million")[2].partition("`--simulate`")[0]
    assert f"+{percent} % for" in " ".join(said.split())
    assert f"`{slug}`" in said


@pytest.mark.parametrize("form", ["4bit", "int8"])
def test_a_matrix_is_counted_while_it_is_dequantised(form: Any) -> None:
    """In a shallow model at a short context it takes a seventh of the memory or more."""
    shallow = {
        **LLAMA, "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 2048, "vocab_size": 1000,
    }  # fmt: skip
    setting = Setting(context=32, format=form)
    found = simulate(shallow, TRAINING_METHODS["mezo-lora"], setting).as_metrics()["total_bytes"]
    matrix = 2 * 512 * 2048
    assert matrix > found / 7
    formula = estimate(architecture(shallow), TRAINING_METHODS["mezo-lora"], setting).total
    assert formula == pytest.approx(found, rel=0.02)


BLOOM = {
    "model_type": "bloom", "hidden_size": 32, "n_layer": 1, "n_head": 2, "vocab_size": 64,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip


def test_a_model_that_the_formula_does_not_know_is_simulated() -> None:
    eager = Setting(context=8, attention="eager")
    assert simulate(BLOOM, TRAINING_METHODS["mezo"], eager).total > 0
    with pytest.raises(ReproError, match=r"with sdpa: .*; try --attention eager"):
        simulate(BLOOM, TRAINING_METHODS["mezo"], Setting(context=8))


@pytest.mark.parametrize(
    "sizes",
    [
        {"model_type": "xlnet", "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
        {"model_type": "xlm", "emb_dim": 64, "n_layers": 2, "n_heads": 4},
    ],
)
def test_a_model_whose_forward_pass_fails_is_told(sizes: dict[str, Any]) -> None:
    model = Model("mine", "a file", {**sizes, "vocab_size": 500})
    plan = plan_model(model, [TRAINING_METHODS["elasticzo"]], Setting(context=8), 1e9, report=print)
    assert "cannot be simulated by elasticzo" in (plan.rows[0].unsupported_reason or "")


def test_a_method_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_blocks(*_: object) -> None:
        raise ReproError("the model has no list of blocks")

    monkeypatch.setattr(simulation, "partition_before", without_blocks)
    methods = [TRAINING_METHODS[slug] for slug in ("elasticzo", "mezo")]
    setting = Setting(context=8, attention="eager")
    plan = plan_model(Model("mine", "a file", BLOOM), methods, setting, 1e9, report=print)
    elasticzo, mezo = plan.rows
    assert "by elasticzo: the model has no list of blocks" in (elasticzo.unsupported_reason or "")
    assert mezo.simulated is not None


@pytest.mark.parametrize("model_type", ["no-such-model", "bert-generation-what", "clip"])
def test_what_is_no_causal_language_model_is_refused(model_type: str) -> None:
    with pytest.raises(ReproError, match="transformers cannot build this configuration"):
        simulate({"model_type": model_type}, TRAINING_METHODS["mezo"], Setting(context=8))


@pytest.mark.parametrize("model_type", ["t5", "vit"])
def test_a_model_of_another_kind_is_named_as_such(model_type: str) -> None:
    model = Model("mine", "a file", {"model_type": model_type})
    with pytest.raises(ReproError, match=f"{model_type!r} is no causal language model"):
        plan_model(model, [TRAINING_METHODS["mezo"]], Setting(context=8), 1e9, report=print)


def test_layers_registered_in_another_order_than_they_run_in_are_simulated() -> None:
    """OPT registers its last norm before its blocks."""
    config = {**find("opt-125m").config, "num_hidden_layers": 2, "vocab_size": 128}  # type: ignore[union-attr]
    setting = Setting(context=64, batch=2)
    method = TRAINING_METHODS["elasticzo"]
    found = simulate(config, method, setting).total
    assert found == pytest.approx(estimate(architecture(config), method, setting).total, rel=0.02)
