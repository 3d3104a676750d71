"""GGUF files of tiny random models, written here with llama.cpp's own library, and read back."""

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    NemotronConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    StableLmConfig,
    Starcoder2Config,
)

from repro.core.errors import ReproError, UsageError
from repro.core.paths import sha256_of
from repro.finetuning.base_models import unobtainable
from repro.models import pretrained
from repro.models.gguf_header import read_header
from repro.models.pretrained import ARCHITECTURES, converted, load_pretrained
from repro.planner.configurations import architecture
from repro.planner.models import named

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, FEED_FORWARD, CONTEXT = 2, 32, 4, 2, 8, 64, 64
TOKENS = ["<s>", "</s>", *sorted(ByteLevel.alphabet()), "Ye", "ĠYe"]
MERGES = ["Y e", "Ġ Ye"]
PIECES = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{n:02X}>" for n in range(256)), "▁", "a", "b"]

Array = npt.NDArray[np.float32]


def sizes(vocabulary: list[str]) -> dict[str, int]:
    return {
        "vocab_size": len(vocabulary),
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": FEED_FORWARD,
        "max_position_embeddings": CONTEXT,
    }


def rotary(base: float, rotated: float | None = None) -> dict[str, Any]:
    """Positions that no configuration has by default, so that leaving them out is noticed."""
    part = {} if rotated is None else {"partial_rotary_factor": rotated}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **part}}


def small(vocabulary: list[str] = TOKENS, **options: Any) -> dict[str, Any]:
    return {**sizes(vocabulary), "tie_word_embeddings": False, **options}


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
CONFIGS: dict[str, tuple[Callable[[], PreTrainedConfig], gguf.MODEL_ARCH]] = {
    "llama": (lambda: LlamaConfig(**small()), gguf.MODEL_ARCH.LLAMA),
    "gpt2": (
        lambda: GPT2Config(
            vocab_size=len(TOKENS),
            n_embd=HIDDEN,
            n_layer=LAYERS,
            n_head=HEADS,
            n_positions=CONTEXT,
            bos_token_id=0,
            eos_token_id=1,
        ),
        gguf.MODEL_ARCH.GPT2,
    ),
    "gemma2": (
        lambda: Gemma2Config(**sizes(PIECES), head_dim=HEAD_SIZE, sliding_window=16),
        gguf.MODEL_ARCH.GEMMA2,
    ),
    "gemma3": (
        lambda: Gemma3TextConfig(**sizes(PIECES), head_dim=HEAD_SIZE, sliding_window=16),
        gguf.MODEL_ARCH.GEMMA3,
    ),
    "qwen2": (
        lambda: Qwen2Config(**small(tie_word_embeddings=True), **rotary(3e4)),
        gguf.MODEL_ARCH.QWEN2,
    ),
    "qwen2moe": (
        lambda: Qwen2MoeConfig(**small(), **EXPERTS, shared_expert_intermediate_size=24),
        gguf.MODEL_ARCH.QWEN2MOE,
    ),
    "qwen3": (
        lambda: Qwen3Config(**small(head_dim=16, tie_word_embeddings=True), **rotary(3e4)),
        gguf.MODEL_ARCH.QWEN3,
    ),
    "qwen3moe": (
        lambda: Qwen3MoeConfig(**small(head_dim=16), **EXPERTS, norm_topk_prob=True),
        gguf.MODEL_ARCH.QWEN3MOE,
    ),
    "bloom": (
        lambda: BloomConfig(
            vocab_size=len(TOKENS), hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS
        ),
        gguf.MODEL_ARCH.BLOOM,
    ),
    "falcon": (
        lambda: FalconConfig(
            vocab_size=len(TOKENS),
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_kv_heads=1,
        ),
        gguf.MODEL_ARCH.FALCON,
    ),
    "mamba": (
        lambda: MambaConfig(
            vocab_size=len(TOKENS),
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            state_size=8,
            time_step_rank=4,
        ),
        gguf.MODEL_ARCH.MAMBA,
    ),
    "nemotron": (
        lambda: NemotronConfig(**small(head_dim=HEAD_SIZE), **rotary(3e4, 0.25)),
        gguf.MODEL_ARCH.NEMOTRON,
    ),
    "phi3": (
        lambda: Phi3Config(**small(pad_token_id=0), **rotary(3e4, 0.5)),
        gguf.MODEL_ARCH.PHI3,
    ),
    "stablelm": (
        lambda: StableLmConfig(**small(use_qkv_bias=True), **rotary(3e4, 0.5)),
        gguf.MODEL_ARCH.STABLELM,
    ),
    "starcoder2": (
        lambda: Starcoder2Config(**small(tie_word_embeddings=True), **rotary(3e4)),
        gguf.MODEL_ARCH.STARCODER2,
    ),
}


def random_model(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(CONFIGS[family][0]())
    for parameter in model.parameters():  # norms too, which would otherwise all be alike
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def as_llama_cpp_has_it(family: str, name: str, weight: Array) -> Array:
    """Do what llama.cpp's ``convert_hf_to_gguf.py`` does to a weight of transformers."""
    if family == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = HEADS if "q_proj" in name else KV_HEADS
        halves = weight.reshape(heads, 2, HEAD_SIZE // 2, HIDDEN)
        return halves.swapaxes(1, 2).reshape(weight.shape)
    if family == "gpt2" and weight.ndim == 2 and ".c_" in name:
        return weight.T
    if family.startswith("gemma") and name.endswith("norm.weight"):
        return weight + 1
    if family == "nemotron" and name.endswith("norm.weight"):
        return weight + 1
    if family == "bloom" and "query_key_value" in name:
        heads_first = weight.reshape(HEADS, 3, HEAD_SIZE, -1)
        return heads_first.swapaxes(0, 1).reshape(weight.shape)
    if name.endswith("A_log"):
        return -np.exp(weight)
    if "conv1d.weight" in name:
        return weight.squeeze(1)
    if "shared_expert_gate" in name:
        return weight.squeeze(0)
    return weight


def split_experts(name: str, weight: Array) -> dict[str, Array]:
    """Name the stacked weights of a layer's experts as llama.cpp does."""
    layer = f"blk.{name.split('.')[2]}"
    if name.endswith("down_proj"):
        return {f"{layer}.ffn_down_exps.weight": weight}
    gate, up = np.split(weight, 2, axis=1)
    return {f"{layer}.ffn_gate_exps.weight": gate, f"{layer}.ffn_up_exps.weight": up}


def add_sizes(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    """Add what tells the families that are alike in most from one another."""
    writer.add_head_count_kv(1 if family == "falcon" else KV_HEADS)
    size = getattr(config, "head_dim", None) or HEAD_SIZE
    writer.add_key_length(size)
    writer.add_value_length(size)
    positions = getattr(config, "rope_parameters", None) or {}
    if positions:
        writer.add_rope_freq_base(positions["rope_theta"])
        writer.add_rope_dimension_count(int(size * positions.get("partial_rotary_factor", 1)))
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(1e-5)
    if family == "mamba":
        writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
        writer.add_ssm_conv_kernel(config.conv_kernel)
        writer.add_ssm_state_size(config.state_size)
        writer.add_ssm_time_step_rank(config.time_step_rank)
        writer.add_ssm_inner_size(config.intermediate_size)
    if family.endswith("moe"):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def write_gguf(
    family: str,
    model: PreTrainedModel,
    path: Path,
    quantisation: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    add: Callable[[gguf.GGUFWriter], None] = lambda _: None,
) -> None:
    writer = gguf.GGUFWriter(path, family)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * HIDDEN if family == "gpt2" else FEED_FORWARD)
    writer.add_head_count(HEADS)
    if family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    elif family in {"llama", "gemma2", "gemma3"}:
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_key_length(HEAD_SIZE)
        writer.add_value_length(HEAD_SIZE)
        writer.add_rope_dimension_count(HEAD_SIZE)
        writer.add_rope_freq_base(1e6 if family == "gemma3" else 1e4)
    else:
        add_sizes(writer, family, model.config)
    if family.startswith("gemma"):
        writer.add_sliding_window(16)
    add_tokenizer(writer, family)
    names = gguf.get_tensor_name_map(CONFIGS[family][1], LAYERS)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if ".mlp.experts." in name:
            for target, weight in split_experts(name, tensor.numpy()).items():
                writer.add_tensor(target, np.ascontiguousarray(weight))
            continue
        known = name.removeprefix("transformer.") if family == "bloom" else name
        target = names.get_name(known, try_suffixes=(".weight", ".bias"))
        weight = np.ascontiguousarray(as_llama_cpp_has_it(family, name, tensor.numpy()))
        kind = quantisation if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(target, gguf.quants.quantize(weight, kind), raw_dtype=kind)
    add(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: gguf.GGUFWriter, family: str) -> None:
    if family.startswith("gemma"):
        byte, control, normal = gguf.TokenType.BYTE, gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
        types = [control] * 3 + [gguf.TokenType.UNKNOWN] + [byte] * 256 + [normal] * 3
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([-float(number) for number in range(len(PIECES))])
        writer.add_token_types(types)
        writer.add_bos_token_id(2)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(3)
        writer.add_pad_token_id(0)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(TOKENS)
        writer.add_token_merges(MERGES)
        writer.add_token_types([gguf.TokenType.NORMAL] * len(TOKENS))
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_pad_token_id(0)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_every_architecture_that_counts_as_tested_is() -> None:
    assert set(CONFIGS) == set(ARCHITECTURES)


@pytest.mark.parametrize("family", list(CONFIGS))
def test_a_gguf_file_computes_what_its_model_computed(family: str, tmp_path: Path) -> None:
    original = random_model(family)
    write_gguf(family, original, tmp_path / "model.gguf")
    loaded = load_pretrained(str(tmp_path / "model.gguf"))
    assert type(loaded.model) is type(original)
    tokens = torch.arange(30).reshape(2, 15) + 4
    with torch.no_grad():
        expected, found = original(tokens).logits, loaded.model(tokens).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "qwen2", "falcon"])
def test_a_gguf_file_is_planned_for_with_the_weights_it_holds(family: str, tmp_path: Path) -> None:
    original = random_model(family)
    path = tmp_path / "model.gguf"
    write_gguf(family, original, path)
    weights = sum(parameter.numel() for parameter in original.parameters())
    for given in (path, tmp_path):  # the file, or its directory
        assert architecture(named(str(given)).config).parameters == weights


def test_a_gguf_file_with_wrong_metadata_has_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(
        "llama", random_model("llama"), path,
        add=lambda writer: writer.add_string("tokenizer.ggml.bos_token_id", "one"),
    )  # fmt: skip
    with pytest.raises(ReproError, match="transformers cannot convert it"):
        named(str(path))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_tokenizer_comes_with_the_model(family: str, tmp_path: Path) -> None:
    write_gguf(family, random_model(family), tmp_path / "model.gguf")
    tokenizer = load_pretrained(str(tmp_path / "model.gguf")).tokenizer
    ids = tokenizer("a Ye")["input_ids"]
    assert [TOKENS[number] for number in ids] == ["a", "ĠYe"]
    assert tokenizer.decode(ids) == "a Ye"


def test_files_beside_a_gguf_file_do_not_count(tmp_path: Path) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    write_gguf("gpt2", random_model("gpt2"), tmp_path / "other.gguf")
    load_pretrained(str(tmp_path / "other.gguf")).tokenizer.save_pretrained(tmp_path)
    other = json.loads((tmp_path / "tokenizer.json").read_text())
    other["model"]["merges"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(other))
    (tmp_path / "adapter_config.json").write_text("{}")
    tokenizer = load_pretrained(str(tmp_path / "model.gguf")).tokenizer
    assert [TOKENS[number] for number in tokenizer("a Ye")["input_ids"]] == ["a", "ĠYe"]


@pytest.mark.parametrize(("rule", "known"), [("qwen2", True), ("stablelm2", False)])
def test_a_tokenizer_that_splits_texts_by_an_unknown_rule_is_refused(
    rule: str, known: bool, tmp_path: Path
) -> None:
    write_gguf(
        "llama", random_model("llama"), tmp_path / "model.gguf",
        add=lambda writer: writer.add_tokenizer_pre(rule),
    )  # fmt: skip
    if known:
        load_pretrained(str(tmp_path / "model.gguf"))
        return
    with pytest.raises(UsageError, match=r"by the rule 'stablelm2'.*directory of transf"):
        load_pretrained(str(tmp_path / "model.gguf"))


def test_a_file_with_another_hash_than_it_should_have_is_not_converted(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf("llama", random_model("llama"), path)
    whole, right = path.read_bytes(), sha256_of(path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ReproError, match=r"model.gguf is damaged: its SHA-256 is not"):
        converted(path, right)
    path.write_bytes(whole)
    directory = converted(path, right)
    path.unlink()
    assert directory.name.startswith(right[:16])


def test_a_converted_model_needs_no_writable_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    directory = converted(tmp_path / "model.gguf")

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(pretrained, "FileLock", refused)
    assert converted(tmp_path / "model.gguf") == directory


def test_quantised_weights_become_what_llama_cpp_dequantises(tmp_path: Path) -> None:
    original = random_model("llama")
    kind = gguf.GGMLQuantizationType.Q8_0
    write_gguf("llama", original, tmp_path / "model.gguf", kind)
    loaded = load_pretrained(str(tmp_path / "model.gguf")).model.state_dict()
    name = "model.layers.1.mlp.up_proj.weight"
    stored = gguf.quants.quantize(original.state_dict()[name].numpy(), kind)
    np.testing.assert_array_equal(loaded[name].numpy(), gguf.quants.dequantize(stored, kind))
    assert loaded[name].dtype == torch.float32


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_local_directory_is_loaded_in_the_type_asked_for(dtype: str, tmp_path: Path) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    directory = converted(tmp_path / "model.gguf")
    assert (directory / "model.safetensors").is_file()
    model = load_pretrained(str(directory), dtype).model
    assert {parameter.dtype for parameter in model.parameters()} == {getattr(torch, dtype)}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not model.training


def test_a_file_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    first = converted(tmp_path / "model.gguf")
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)  # would fail if used
    assert converted((tmp_path / "model.gguf").rename(tmp_path / "other.gguf")) == first


@pytest.mark.parametrize("changed", [("_RULES", 2), ("version", lambda _: "6.0.0")])
def test_another_conversion_or_transformers_converts_again(
    changed: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an outdated configuration beside the same weights would be used."""
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    sha256 = sha256_of(tmp_path / "model.gguf")
    first, known = converted(tmp_path / "model.gguf"), converted(tmp_path / "model.gguf", sha256)
    monkeypatch.setattr(pretrained, *changed)
    assert converted(tmp_path / "model.gguf") != first
    assert converted(tmp_path / "model.gguf", sha256) == known  # of the catalogue, as it was tested


@pytest.mark.parametrize("kept", [0, 10, 1000, -1000])
def test_a_truncated_gguf_file_is_refused(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf("llama", random_model("llama"), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ReproError, match=r"model\.gguf: not a GGUF file that can be read"):
        converted(path)
    assert not (tmp_path / "cache" / "models").exists()


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "rwkv7")
    writer.add_context_length(8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UsageError, match=r"'rwkv7': must be one of llama, .* instead$"):
        converted(tmp_path / "model.gguf")


def test_a_file_that_lacks_weights_leaves_nothing(tmp_path: Path) -> None:
    model = random_model("llama")
    del model.model.layers[1]
    write_gguf("llama", model, tmp_path / "model.gguf")
    with pytest.raises(
        ReproError, match=r"cannot convert it .its tensors have [\d,]+ weights, and"
    ):
        converted(tmp_path / "model.gguf")
    assert [path.suffix for path in (tmp_path / "cache" / "models").iterdir()] == [".lock"]


def test_the_dense_weights_of_qwen2_are_those_of_an_independent_reader(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf("qwen2", random_model("qwen2"), path, gguf.GGMLQuantizationType.Q4_0)
    weights = load_pretrained(str(path)).model.state_dict()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, LAYERS)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    assert len(stored) == len(weights) - 1  # the output layer is the embedding
    for name, weight in weights.items():
        if name != "lm_head.weight":
            tensor = stored[names.get_name(name, try_suffixes=(".weight", ".bias"))]
            expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            np.testing.assert_array_equal(weight.numpy(), expected, err_msg=name)


def store_output(
    kind: gguf.GGMLQuantizationType, weight: torch.Tensor
) -> Callable[[gguf.GGUFWriter], None]:
    stored = gguf.quants.quantize(weight.numpy(), kind)
    return lambda writer: writer.add_tensor("output.weight", stored, raw_dtype=kind)


@pytest.mark.parametrize("finer", ["embedding", "output"])
def test_an_output_layer_that_is_stored_apart_is_tied_to_the_finer_copy(
    finer: str, tmp_path: Path
) -> None:
    q4, q8 = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0
    kinds = (q8, q4) if finer == "embedding" else (q4, q8)
    original = random_model("qwen2")
    embedding = original.get_input_embeddings().weight.detach()
    path = tmp_path / "model.gguf"
    write_gguf("qwen2", original, path, kinds[0], store_output(kinds[1], embedding))
    model = load_pretrained(str(path)).model
    assert model.config.tie_word_embeddings
    assert model.num_parameters() == original.num_parameters()
    expected = gguf.quants.dequantize(gguf.quants.quantize(embedding.numpy(), q8), q8)
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        np.testing.assert_array_equal(layer.weight.detach().numpy(), expected)


@pytest.mark.parametrize("change", [0.3, 2.0])
def test_an_output_layer_that_was_trained_apart_stays_apart(change: float, tmp_path: Path) -> None:
    q8 = gguf.GGMLQuantizationType.Q8_0
    original = random_model("qwen2")
    embedding = original.get_input_embeddings().weight.detach()
    output = embedding + change * embedding.std() * torch.randn_like(embedding)
    path = tmp_path / "model.gguf"
    write_gguf("qwen2", original, path, q8, store_output(q8, output))
    model = load_pretrained(str(path)).model
    assert not model.config.tie_word_embeddings
    expected = gguf.quants.dequantize(gguf.quants.quantize(output.numpy(), q8), q8)
    np.testing.assert_array_equal(model.get_output_embeddings().weight.detach().numpy(), expected)


def test_a_large_model_is_kept_in_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    write_gguf("qwen2", random_model("qwen2"), path, gguf.GGMLQuantizationType.Q8_0)
    exact = load_pretrained(str(path)).model.state_dict()
    monkeypatch.setattr(pretrained, "LARGE", read_header(path).elements)
    assert {
        tensor.dtype for tensor in load_file(converted(path) / "model.safetensors").values()
    } == {torch.bfloat16}
    for dtype in ("bfloat16", "float32"):
        rounded = load_pretrained(str(path), dtype).model.state_dict()
        for name, weight in rounded.items():
            assert weight.dtype == getattr(torch, dtype)
            assert torch.equal(weight.float(), exact[name].bfloat16().float()), name


@pytest.mark.parametrize(
    ("add", "found"),
    [
        (lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN), "yarn"),
        (lambda writer: writer.add_rope_scaling_factor(4.0), r"rope\.scaling\.factor = 4\.0"),
        (
            lambda writer: writer.add_float32("llama.rope.scale_linear", 2.0),
            r"rope\.scale_linear = 2\.0",
        ),
        (
            lambda writer: writer.add_tensor("rope_freqs.weight", np.ones(4, np.float32)),
            r"rope_freqs\.weight",
        ),
    ],
)
def test_scaled_positions_are_refused(
    add: Callable[[gguf.GGUFWriter], None], found: str, tmp_path: Path
) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf", add=add)
    with pytest.raises(UsageError, match=f"rotary positions are scaled .{found}.*instead$"):
        converted(tmp_path / "model.gguf")


def test_positions_scaled_by_one_are_not_scaled(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_factor(1.0)
        writer.add_float32("llama.rope.scale_linear", 0.0)

    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf", add=add)
    assert (converted(tmp_path / "model.gguf") / "model.safetensors").is_file()


def test_a_weight_that_transformers_would_leave_out_is_an_error(tmp_path: Path) -> None:
    def add_bias(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("blk.0.attn_q.bias", np.ones(HIDDEN, np.float32))

    path = tmp_path / "model.gguf"
    write_gguf("llama", random_model("llama"), path, add=add_bias)
    with pytest.raises(ReproError, match=r"its tensors have [\d,]+ weights, and the model"):
        converted(path)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def crafted(
    *metadata: bytes, tensors: int = 0, entries: int | None = None, then: bytes = b""
) -> bytes:
    """Return a GGUF file, of architecture qwen2, with these metadata."""
    architecture = text("general.architecture") + struct.pack("<I", 8) + text("qwen2")
    count = 1 + len(metadata) if entries is None else entries
    return (
        b"GGUF"
        + struct.pack("<IQQ", 3, tensors, count)
        + b"".join([architecture, *metadata, then])
        + bytes(64)
    )


def entry(name: str, kind: int, layout: str, *values: float) -> bytes:
    return text(name) + struct.pack("<I", kind) + struct.pack(layout, *values)


def tensor(name: str, shape: tuple[int, ...], offset: int = 0, kind: int = 0) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


HUGE = 2**62


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (crafted(entries=HUGE), "declares 4,611,.* metadata entries"),
        (crafted(tensors=HUGE), "declares 4,611,.* tensors"),
        (crafted(entry("a", 9, "<IQ", 8, HUGE)), "declares 4,611,.* strings in an array"),
        (crafted(entry("a", 9, "<IQ", 4, HUGE)), "declares 4,611,.* numbers in an array"),
        (crafted(entry("a", 9, "<IQ", 9, HUGE)), "an array of the unknown type 9"),
        (crafted(entry("a", 8, "<Q", HUGE)), "4,611,.* bytes are needed"),
        (crafted(entry("a", 77, "<Q", 1)), "metadata of the unknown type 77"),
        (crafted(entry("a", 4, "<I", 1), entry("a", 4, "<I", 1)), "'a' is there twice"),
        (crafted(tensors=1, then=tensor("t", (HUGE,) * 4)), "'t' ends .* after the end"),
        (crafted(tensors=1, then=tensor("t", (4,), HUGE)), "'t' ends .* after the end"),
        (crafted(tensors=1, then=tensor("t", ())), "has 0 dimensions, not 1 to 4"),
        (crafted(tensors=1, then=tensor("t", (1,) * 9)), "has 9 dimensions, not 1 to 4"),
        (crafted(tensors=1, then=tensor("t", (0, 4))), "is empty"),
        (crafted(tensors=1, then=tensor("t", (31, 4), kind=2)), "whole blocks of 32"),
        (crafted(tensors=1, then=tensor("t", (4,), kind=99)), "99 is not a valid"),
        (
            crafted(tensors=2, then=tensor("t", (8,)) + tensor("u", (8,))),
            "tensors need 64 bytes, .* are there",
        ),
        (
            crafted(entry("general.alignment", 4, "<I", 0), tensors=1, then=tensor("t", (1,))),
            "alignment is 0",
        ),
        (
            crafted(entry("qwen2.block_count", 4, "<I", 2**31), tensors=1, then=tensor("t", (1,))),
            r"block_count is 2147483648, and its 1 tensors allow at most 1",
        ),
        (
            crafted(
                entry("qwen2.embedding_length", 4, "<I", 2**31), tensors=1, then=tensor("t", (1,))
            ),
            r"embedding_length is 2147483648",
        ),
        (crafted()[:4] + struct.pack("<I", 1) + crafted()[8:], "its version is 1"),
        (b"PK" + crafted()[2:], "it begins with b'PKUF', not b'GGUF'"),
    ],
)
def test_sizes_that_do_not_fit_the_file_are_refused_at_once(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    begin = time.perf_counter()
    with pytest.raises(ReproError, match=f"not a GGUF file that can be read: .*{reason}"):
        converted(path)
    assert time.perf_counter() - begin < 10  # milliseconds on an idle machine


def test_metadata_that_are_missing_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(crafted())
    with pytest.raises(ReproError, match="have 0 weights, and the model"):
        converted(tmp_path / "model.gguf")


def test_other_types_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="dtype = 'int8': must be one of float32"):
        load_pretrained("smollm2-135m", "int8")


def test_what_is_no_model_says_what_can_be_given(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=r"give a directory, a \.gguf file, a name on the hub"):
        load_pretrained(str(tmp_path))
    with pytest.raises(UsageError, match="absent: there is no such file or directory"):
        load_pretrained(str(tmp_path / "absent"))


def test_a_directory_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    directory = converted(tmp_path / "model.gguf")
    weights = load_file(directory / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ReproError, match=r"1 weights are missing, the first is model\.norm\.weight"
    ):
        load_pretrained(str(directory))


def _halve(directory: Path) -> None:
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _widen(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    config["vocab_size"] += 1
    (directory / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("damage", [_halve, _widen])
def test_a_damaged_directory_is_explained(damage: Callable[[Path], None], tmp_path: Path) -> None:
    write_gguf("llama", random_model("llama"), tmp_path / "model.gguf")
    directory = converted(tmp_path / "model.gguf")
    damage(directory)
    with pytest.raises(ReproError, match=r"the converted model .* is damaged .*remove the dir"):
        load_pretrained(str(directory))
    directory = directory.rename(tmp_path / "own")
    with pytest.raises(ReproError, match=r"no causal language model .*give a directory"):
        load_pretrained(str(directory))


def test_a_damaged_conversion_is_told_before_its_weights_are_read(tmp_path: Path) -> None:
    gguf = tmp_path / "model.gguf"
    write_gguf("llama", random_model("llama"), gguf)
    (converted(gguf) / "config.json").write_text("{")
    assert "the converted model" in (reason := unobtainable(str(gguf)))
    assert reason.endswith("remove the directory")
