"""The planner's sizes against models that transformers builds and against published counts."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from repro.core.errors import UsageError
from repro.memory.setting import Setting
from repro.planner.configurations import NoFormulaError, architecture
from repro.planner.families import FAMILIES, Member, find, members
from repro.planner.formula import weight_bytes
from repro.planner.models import of_size

_SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 160,
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
_GPT2 = {
    "model_type": "gpt2",
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 96,
    "n_positions": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_OPT = {"ffn_dim": 160, "word_embed_proj_dim": 64}


def _of(model_type: str, **rest: object) -> dict[str, Any]:
    return {"model_type": model_type, **_SIZES, **rest}


CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _of("llama", num_key_value_heads=2, tie_word_embeddings=False),
    "llama, biases, tied, wide heads": _of(
        "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=32
    ),
    "mistral": _of("mistral", num_key_value_heads=2, sliding_window=None),
    "qwen2": _of("qwen2", num_key_value_heads=2),
    "qwen3": _of("qwen3", num_key_value_heads=2, head_dim=32),
    "gemma": _of("gemma", num_key_value_heads=1, head_dim=32),
    "gemma2": _of("gemma2", num_key_value_heads=2, head_dim=32),
    "gemma3": _of("gemma3_text", num_key_value_heads=1, head_dim=32, sliding_window=512),
    "gpt2": _GPT2,
    "gpt2, other names": {
        "model_type": "gpt2",
        "hidden_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "vocab_size": 64,
        "n_embd": 768,
    },
    "gpt2, narrow": {**_GPT2, "n_inner": 96, "tie_word_embeddings": False},
    "gpt_neox": _of("gpt_neox"),
    "gpt_neox, its own heads": _of("gpt_neox", head_dim=32),
    "gpt_neox, key/value heads": _of("gpt_neox", num_key_value_heads=2),
    "opt, key/value heads": _of("opt", **_OPT, num_key_value_heads=2),
    "gpt_neox, sequential": _of("gpt_neox", use_parallel_residual=False, attention_bias=False),
    "opt": _of("opt", **_OPT),
    "opt, its own heads": _of("opt", **_OPT, head_dim=32),
    "phi": _of("phi"),
    "phi3": _of("phi3", num_key_value_heads=2),
    "falcon": _of("falcon"),
    "falcon, other name": {**_of("falcon"), "n_embed": 96},
    "falcon, null": {**_of("falcon"), "n_embed": None},
    "falcon, new": _of("falcon", new_decoder_architecture=True, num_kv_heads=2, bias=True),
    "falcon, sequential": _of("falcon", parallel_attn=False, multi_query=False),
    "stablelm": _of("stablelm", num_key_value_heads=2, use_qkv_bias=True),
    "stablelm, its own heads": _of("stablelm", num_key_value_heads=4, head_dim=32),
    "stablelm, parallel": _of("stablelm", num_key_value_heads=4, use_parallel_residual=True),
    "olmo2": _of("olmo2", num_key_value_heads=2),
    "smollm3": _of("smollm3", num_key_value_heads=2),
}


def built(config: dict[str, Any]) -> nn.Module:
    """The model itself, on the meta device."""
    values = {key: value for key, value in config.items() if key != "model_type"}
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config["model_type"], **values)
        )


def matrices(model: nn.Module) -> Iterator[tuple[int, int]]:
    """Inputs and outputs of every matrix but the head."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    for module in model.modules():
        if module is head or not isinstance(module, nn.Linear | Conv1D):
            continue
        rows, columns = module.weight.shape
        yield (columns, rows) if isinstance(module, nn.Linear) else (rows, columns)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_and_matrices_are_those_of_the_built_model(name: str) -> None:
    config = CONFIGS[name]
    a, model = architecture(config), built(config)
    assert a.parameters == sum(p.numel() for p in model.parameters())
    assert sorted(a.matrices * a.layers) == sorted(matrices(model))


@pytest.mark.parametrize("kind", sorted({config["model_type"] for config in CONFIGS.values()}))
def test_sizes_that_a_file_leaves_out_are_those_of_the_models_class(kind: str) -> None:
    model = built({"model_type": kind})
    a = architecture({"model_type": kind})
    assert a.parameters == sum(p.numel() for p in model.parameters())
    assert sorted(a.matrices * a.layers) == sorted(matrices(model))
    positions = {"gpt2": "n_positions"}.get(kind, "max_position_embeddings")
    assert a.positions == getattr(model.config, positions)


def test_every_known_model_type_is_tried() -> None:
    with pytest.raises(UsageError, match="the formula knows") as refusal:
        architecture({"model_type": "unheard_of"})
    known = str(refusal.value).partition("the formula knows ")[2].partition(";")[0].split(", ")
    assert {config["model_type"] for config in CONFIGS.values()} == set(known)


@pytest.mark.parametrize("member", list(members()), ids=lambda member: member.name)
def test_shapes_of_the_table_have_the_published_parameters(member: Member) -> None:
    assert architecture(member.config).parameters == member.parameters


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**_GPT2, "add_cross_attention": True}, "'gpt2' with add_cross_attention = True"),
        ({**_GPT2, "reorder_and_upcast_attn": True}, "reorder_and_upcast_attn = True"),
        (_of("smollm3", use_sliding_window=True), "use_sliding_window = True"),
        (_of("qwen2", layer_types=["full_attention", "linear_attention"]), "layer_types = "),
        ({"model_type": ["llama"]}, r"model type \['llama'\]"),
        ({"model_type": "x", "text_config": {"model_type": ["llama"]}}, r"model type \['llama'\]"),
    ],
)
def test_variants_that_the_formula_does_not_cover_are_refused(
    config: dict[str, Any], said: str
) -> None:
    with pytest.raises(NoFormulaError, match=said):
        architecture(config)


def test_a_size_beyond_the_search_is_refused() -> None:
    assert architecture(of_size("24T").config).parameters == pytest.approx(24e12, rel=0.01)
    with pytest.raises(UsageError, match=r"params = '500T': must be at most 24,[0-9,]+; give less"):
        of_size("500T")


def test_families_are_in_order_of_size_and_names_are_unique() -> None:
    for family in FAMILIES.values():
        sizes = [member.parameters for member in family]
        assert sizes == sorted(sizes)
    names = [name for m in members() for name in (m.name, m.repository)]
    assert len(set(names)) == len(names)


def test_a_model_is_found_by_either_name() -> None:
    assert find("Llama-2-7B") is find("meta-llama/llama-2-7b-HF")
    assert find("llama-2-8b") is None


@pytest.mark.parametrize(
    ("parameters", "layers", "count"),
    [("7B", 32, 6_738_415_616), ("13B", 40, 13_015_864_320)],
)
def test_the_shape_rule_gives_llama_2_at_its_own_sizes(
    parameters: str, layers: int, count: int
) -> None:
    found = architecture(of_size(parameters).config)
    assert (found.layers, found.parameters) == (layers, count)


@given(wanted=st.integers(20_000_000, 10**12))
def test_the_shape_rule_comes_near_any_count(wanted: int) -> None:
    found = architecture(of_size(str(wanted)).config)
    assert abs(found.parameters - wanted) < 0.25 * wanted


def test_text_of_a_model_of_several_parts_is_what_counts() -> None:
    text = CONFIGS["gemma3"]
    assert architecture({"model_type": "gemma3", "text_config": text}) == architecture(text)


def test_what_a_file_may_leave_out_is_that_of_the_models_class() -> None:
    """The configuration of Gemma 3 4B names neither heads nor vocabulary."""
    sizes = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    text = {"model_type": "gemma3_text", "sliding_window": 1024, **sizes}
    parameters = sum(p.numel() for p in built(text).parameters())
    assert architecture(text).parameters == parameters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, "model type 'mamba': the formula knows llama, mistral"),
        ({"hidden_size": None}, "hidden_size = None: must be a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0: must be a whole number"),
        ({"num_attention_heads": 7}, "7 heads do not divide the hidden size 64"),
        ({"num_key_value_heads": 3}, "3 key/value heads do not divide 4 heads"),
        ({"hidden_act": "gelu_new"}, "gated feed-forward network with gelu_new"),
        ({"model_type": "gemma", "hidden_act": "gelu_new"}, "gated feed-forward network"),
        ({"model_type": "gemma2", "hidden_activation": "gelu_new"}, "gated feed-forward"),
        ({"model_type": "gemma3_text", "hidden_activation": "gelu_new"}, "gated feed-forward"),
        ({"hidden_act": "mish"}, "activation 'mish': the formula knows relu"),
        (
            {"model_type": "gemma2", "attn_logit_softcapping": None},
            "softcapping = None: the formula",
        ),
        ({"model_type": "gemma3_text", "final_logit_softcapping": 30.0}, "softcapping = 30.0: the"),
        ({"model_type": "phi", "qk_layernorm": True}, "qk_layernorm = True: the formula does not"),
        ({"model_type": "falcon", "alibi": True}, "alibi = True: the formula does not know"),
        ({"model_type": "opt", "ffn_dim": 8, "word_embed_proj_dim": 32}, "word_embed_proj_dim"),
        (
            {"model_type": "opt", "ffn_dim": 8, "layer_norm_elementwise_affine": False},
            "layer_norm_elementwise_affine = False: the formula",
        ),
        (
            {"model_type": "opt", "ffn_dim": 8, "_remove_final_layer_norm": True},
            "_remove_final_layer_norm = True: the formula",
        ),
    ],
)
def test_what_the_formula_does_not_know_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        architecture({**CONFIGS["llama"], **change})


def test_bytes_of_quantised_weights_by_hand() -> None:
    a = architecture(CONFIGS["llama"])  # D = 64, Q = 64, K = 32, F = 160, L = 2, V = 96
    matrices_of_a_block = 64 * 64 * 2 + 64 * 32 * 2 + 64 * 160 * 3
    outputs = 64 + 32 + 32 + 64 + 160 + 160 + 64
    others = 2 * (96 * 64 * 2 + 2 * 2 * 64 + 64)  # embedding, head, norms in bfloat16
    assert a.block_matrix_parameters == matrices_of_a_block
    assert (
        weight_bytes(a, Setting(format="int8")) == 2 * (matrices_of_a_block + 4 * outputs) + others
    )
    assert weight_bytes(a, Setting(format="4bit")) == 2 * matrices_of_a_block * 9 / 16 + others
    assert weight_bytes(a, Setting(format="float32")) == 4 * a.parameters
