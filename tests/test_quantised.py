"""LoRA adapters by MeZO on a quantised base model, with forward passes alone."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

from repro.methods.log import replay
from repro.methods.mezo import MeZO

bitsandbytes = pytest.importorskip(
    "bitsandbytes", reason="bitsandbytes is not installed: extra `test`"
)

# peft reads a name that transformers has deprecated
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

GUIDE = Path(__file__).parents[1] / "docs/huggingface.md"
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32}
INT8 = {"load_in_8bit": True}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.2,
    )
    path = tmp_path_factory.mktemp("base")
    LlamaForCausalLM(config).save_pretrained(path)
    return path


def adapted(base: Path, bits: dict[str, Any], *, training: bool) -> PeftModel:
    model = AutoModelForCausalLM.from_pretrained(
        base,
        quantization_config=BitsAndBytesConfig(**bits),
        device_map="cpu",
        dtype=torch.float32,
        use_cache=False,
    )
    torch.manual_seed(1)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"])
    return get_peft_model(model, config).train(training)


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def loss_of(model: torch.nn.Module) -> Callable[[], torch.Tensor]:
    tokens = torch.randint(0, 4, (8, 8), generator=torch.Generator().manual_seed(2))
    return lambda: model(input_ids=tokens, labels=tokens).loss


def test_the_guides_recipe_learns_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    section = GUIDE.read_text(encoding="utf-8").split("## LoRA on 4-bit weights")[1]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(compile(example[1], str(GUIDE), "exec"), names)  # noqa: S102 - our own documentation
    uniform = math.log(32)
    assert names["before"] > uniform + 1
    assert names["after"] < uniform - 0.5
    trained, log = names["model"], names["mezo"].log
    layer = trained.base_model.model.model.layers[0].self_attn.q_proj
    assert isinstance(layer.base_layer, bitsandbytes.nn.Linear4bit)
    assert layer.base_layer.weight.numel() == 64 * 64 // 2  # bytes
    assert len(log.entries) == 320
    assert not any(p.grad is not None for p in trained.parameters())


@pytest.mark.parametrize("bits", [NF4, INT8], ids=["nf4", "int8"])
def test_only_adapters_are_trained_and_the_log_replays_them(
    bits: dict[str, Any], base: Path
) -> None:
    model = adapted(base, bits, training=True)
    before, loss = state(model), loss_of(model)
    with torch.no_grad():
        initial = loss().item()
    mezo = MeZO(model.parameters(), lr=0.03, eps=1e-2, clip=2)
    for _ in range(80):
        mezo.step(loss)
    with torch.no_grad():
        assert loss().item() < initial - 1
    after = state(model)
    assert before.keys() == after.keys()
    for name, value in after.items():
        assert torch.equal(value, before[name]) == ("lora_" not in name), name
    again = adapted(base, bits, training=True)
    replay(mezo.log, [p for p in again.parameters() if p.requires_grad])
    for name, value in state(again).items():
        assert torch.equal(value, after[name]), name


def test_adapters_are_trained_and_replayed_in_evaluation_mode(base: Path) -> None:
    """Only here, on a CPU with AVX-512 BF16, bitsandbytes rounds the scales of the base weights."""
    model = adapted(base, NF4, training=False)
    before = state(model)
    mezo = MeZO(model.parameters(), lr=0.03, eps=1e-2, clip=2)
    for _ in range(10):
        mezo.step(loss_of(model))
    after = state(model)
    changed = {n for n in after if "lora_" not in n and not torch.equal(after[n], before[n])}
    scales = {name for name in after if name.endswith(".absmax")}
    assert changed == (scales if bitsandbytes.functional.has_avx512bf16() else set())
    again = adapted(base, NF4, training=False)
    replay(mezo.log, [p for p in again.parameters() if p.requires_grad])
    replayed = {name: value for name, value in state(again).items() if "lora_" in name}
    assert len(replayed) == 12
    for name, value in replayed.items():
        assert torch.equal(value, after[name]), name
        assert not torch.equal(value, before[name]), name


def test_four_bits_are_the_nearest_values_of_nf4(base: Path) -> None:
    """The code of the QLoRA paper (arXiv 2305.14314, appendix E), applied to blocks of 64."""
    values = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0]
    values += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]
    code = torch.tensor(values)
    layer = adapted(base, NF4, training=True).base_model.model.model.layers[0].self_attn.q_proj
    packed = layer.base_layer.weight
    found = bitsandbytes.functional.dequantize_4bit(packed.data, packed.quant_state)
    blocks = LlamaForCausalLM.from_pretrained(base).model.layers[0].self_attn.q_proj.weight
    blocks = blocks.detach().reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True)
    nearest = ((blocks / scale)[..., None] - code).abs().argmin(-1)
    torch.testing.assert_close(found.reshape(-1, 64), code[nearest] * scale)
