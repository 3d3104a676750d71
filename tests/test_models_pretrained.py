"""GGUF files of tiny random models, written here with llama.cpp's own library, and read back."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from repro.core.errors import ReproError, UsageError
from repro.models.pretrained import converted, load_pretrained

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


CONFIGS: dict[str, tuple[Callable[[], PreTrainedConfig], gguf.MODEL_ARCH]] = {
    "llama": (
        lambda: LlamaConfig(**sizes(TOKENS), tie_word_embeddings=False),
        gguf.MODEL_ARCH.LLAMA,
    ),
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
    return weight


def write_gguf(
    family: str,
    model: PreTrainedModel,
    path: Path,
    quantisation: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
) -> None:
    writer = gguf.GGUFWriter(path, family)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * HIDDEN if family == "gpt2" else FEED_FORWARD)
    writer.add_head_count(HEADS)
    if family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_key_length(HEAD_SIZE)
        writer.add_value_length(HEAD_SIZE)
        writer.add_rope_dimension_count(HEAD_SIZE)
        writer.add_rope_freq_base(1e6 if family == "gemma3" else 1e4)
    if family.startswith("gemma"):
        writer.add_sliding_window(16)
    add_tokenizer(writer, family)
    names = gguf.get_tensor_name_map(CONFIGS[family][1], LAYERS)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        weight = np.ascontiguousarray(as_llama_cpp_has_it(family, name, tensor.numpy()))
        kind = quantisation if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(target, gguf.quants.quantize(weight, kind), raw_dtype=kind)
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


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


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


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_tokenizer_comes_with_the_model(family: str, tmp_path: Path) -> None:
    write_gguf(family, random_model(family), tmp_path / "model.gguf")
    tokenizer = load_pretrained(str(tmp_path / "model.gguf")).tokenizer
    ids = tokenizer("a Ye")["input_ids"]
    assert [TOKENS[number] for number in ids] == ["a", "ĠYe"]
    assert tokenizer.decode(ids) == "a Ye"


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


@pytest.mark.parametrize("kept", [0, 10, 1000, -1000])
def test_a_truncated_gguf_file_is_refused(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf("llama", random_model("llama"), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ReproError, match=r"model\.gguf: not a GGUF file that can be read"):
        converted(path)
    assert not (tmp_path / "cache" / "models").exists()


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "mamba")
    writer.add_context_length(8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UsageError, match="'mamba': must be one of llama, gpt2, gemma2, gemma3"):
        converted(tmp_path / "model.gguf")


def test_a_file_that_lacks_weights_leaves_nothing(tmp_path: Path) -> None:
    model = random_model("llama")
    del model.model.layers[1]
    write_gguf("llama", model, tmp_path / "model.gguf")
    with pytest.raises(ReproError, match=r"cannot convert it .9 weights are missing"):
        converted(tmp_path / "model.gguf")
    assert [path.suffix for path in (tmp_path / "cache" / "models").iterdir()] == [".lock"]


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
