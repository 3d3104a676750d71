"""Shapes of released models, from the ``config.json`` on the hub, with its field names.

The parameters are the published counts; a test compares them with the planner's count of every
shape. The positions of Qwen2.5 are the context lengths on the models' cards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.core.validation import require_choice


@dataclass(frozen=True)
class Member:
    """A released model."""

    name: str
    """Its name in the planner."""
    repository: str
    """Its name on the hub, whose ``config.json`` is the source of the shape."""
    parameters: int
    """Number of parameters, as published or as in the weight files on the hub."""
    config: Mapping[str, Any]


_LLAMA = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
)
_PYTHIA = tuple(key for key in _LLAMA if key != "num_key_value_heads")
_OPT = ("hidden_size", "word_embed_proj_dim", "num_hidden_layers", "num_attention_heads", "ffn_dim")

_TIED = {"tie_word_embeddings": True}
_SMALL_QWEN25 = {**_TIED, "vocab_size": 151936, "max_position_embeddings": 32768}
_GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "vocab_size": 262144,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "tie_word_embeddings": True,
}
_PHI: dict[str, Any] = {
    "model_type": "phi",
    "vocab_size": 51200,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def _series(
    name: str,
    repository: str,
    *rows: tuple[Any, ...],
    keys: Sequence[str] = _LLAMA,
    **common: object,
) -> tuple[Member, ...]:
    """Return models that differ only in sizes and a few other fields.

    Args:
        name: pattern of the names, with braces for a row's first entry.
        repository: pattern of the repositories, with ``{upper}`` for the first entry in capitals.
        rows: for each model its part of the name, its parameters, its values of ``keys`` and, if it
            differs in other fields, a mapping of these.
        keys: fields of the configuration, in the order of a row.
        common: fields with the same value in all configurations.
    """
    members = []
    for size, parameters, *values in rows:
        own = values.pop() if isinstance(values[-1], Mapping) else {}
        config = {**common, **dict(zip(keys, values, strict=True)), **own}
        hub = repository.format(size, upper=size.upper())
        members.append(Member(name.format(size), hub, parameters, config))
    return tuple(members)


FAMILIES: dict[str, tuple[Member, ...]] = {
    "smollm2": _series(
        "smollm2-{}",
        "HuggingFaceTB/SmolLM2-{upper}",
        ("135m", 134_515_008, 576, 30, 9, 3, 1536),
        ("360m", 361_821_120, 960, 32, 15, 5, 2560),
        ("1.7b", 1_711_376_384, 2048, 24, 32, 32, 8192),
        model_type="llama",
        vocab_size=49152,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ),
    "gpt2": _series(
        "gpt2{}",
        "openai-community/gpt2{}",
        ("", 124_439_808, 768, 12, 12),
        ("-medium", 354_823_168, 1024, 24, 16),
        ("-large", 774_030_080, 1280, 36, 20),
        ("-xl", 1_557_611_200, 1600, 48, 25),
        keys=("n_embd", "n_layer", "n_head"),
        model_type="gpt2",
        n_positions=1024,
        vocab_size=50257,
    ),
    "pythia": _series(
        "pythia-{}",
        "EleutherAI/pythia-{}",
        ("70m", 70_426_624, 512, 6, 8, 2048),
        ("160m", 162_322_944, 768, 12, 12, 3072),
        ("410m", 405_334_016, 1024, 24, 16, 4096),
        ("1b", 1_011_781_632, 2048, 16, 8, 8192),
        ("1.4b", 1_414_647_808, 2048, 24, 16, 8192),
        ("2.8b", 2_775_208_960, 2560, 32, 32, 10240),
        ("6.9b", 6_857_302_016, 4096, 32, 32, 16384, {"vocab_size": 50432}),
        ("12b", 11_846_072_320, 5120, 36, 40, 20480, {"vocab_size": 50688}),
        keys=_PYTHIA,
        model_type="gpt_neox",
        vocab_size=50304,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        use_parallel_residual=True,
    ),
    "opt": _series(
        "opt-{}",
        "facebook/opt-{}",
        ("125m", 125_239_296, 768, 768, 12, 12, 3072),
        ("1.3b", 1_315_758_080, 2048, 2048, 24, 32, 8192),
        ("2.7b", 2_651_596_800, 2560, 2560, 32, 32, 10240),
        ("6.7b", 6_658_473_984, 4096, 4096, 32, 32, 16384),
        ("13b", 12_853_473_280, 5120, 5120, 40, 40, 20480),
        keys=_OPT,
        model_type="opt",
        vocab_size=50272,
        max_position_embeddings=2048,
    ),
    "llama-2": _series(
        "llama-2-{}",
        "meta-llama/Llama-2-{}-hf",
        ("7b", 6_738_415_616, 4096, 32, 32, 32, 11008),
        ("13b", 13_015_864_320, 5120, 40, 40, 40, 13824),
        ("70b", 68_976_648_192, 8192, 80, 64, 8, 28672),
        model_type="llama",
        vocab_size=32000,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    ),
    "llama-3": _series(
        "llama-{}",
        "meta-llama/Llama-{upper}",
        ("3.2-1b", 1_235_814_400, 2048, 16, 32, 8, 8192, {**_TIED, "head_dim": 64}),
        ("3.2-3b", 3_212_749_824, 3072, 28, 24, 8, 8192, _TIED),
        ("3.1-8b", 8_030_261_248, 4096, 32, 32, 8, 14336),
        ("3.1-70b", 70_553_706_496, 8192, 80, 64, 8, 28672),
        model_type="llama",
        head_dim=128,
        vocab_size=128256,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    ),
    "qwen2.5": _series(
        "qwen2.5-{}",
        "Qwen/Qwen2.5-{upper}",
        ("0.5b", 494_032_768, 896, 24, 14, 2, 4864, _SMALL_QWEN25),
        ("1.5b", 1_543_714_304, 1536, 28, 12, 2, 8960, _SMALL_QWEN25),
        ("3b", 3_085_938_688, 2048, 36, 16, 2, 11008, _SMALL_QWEN25),
        ("7b", 7_615_616_512, 3584, 28, 28, 4, 18944),
        ("14b", 14_770_033_664, 5120, 48, 40, 8, 13824),
        ("32b", 32_763_876_352, 5120, 64, 40, 8, 27648),
        ("72b", 72_706_203_648, 8192, 80, 64, 8, 29568),
        model_type="qwen2",
        vocab_size=152064,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    ),
    "qwen3": _series(
        "qwen3-{}",
        "Qwen/Qwen3-{upper}",
        ("0.6b", 596_049_920, 1024, 28, 16, 8, 3072, _TIED),
        ("1.7b", 1_720_574_976, 2048, 28, 16, 8, 6144, _TIED),
        ("4b", 4_022_468_096, 2560, 36, 32, 8, 9728, _TIED),
        ("8b", 8_190_735_360, 4096, 36, 32, 8, 12288),
        ("14b", 14_768_307_200, 5120, 40, 40, 8, 17408),
        model_type="qwen3",
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        tie_word_embeddings=False,
    ),
    "gemma": _series(
        "gemma-{}",
        "google/gemma-{}",
        ("2b", 2_506_172_416, 2048, 18, 8, 1, 16384),
        ("7b", 8_537_680_896, 3072, 28, 16, 16, 24576),
        model_type="gemma",
        head_dim=256,
        vocab_size=256000,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ),
    "gemma2": _series(
        "gemma2-{}",
        "google/gemma-2-{}",
        ("2b", 2_614_341_888, 2304, 26, 8, 4, 9216),
        ("9b", 9_241_705_984, 3584, 42, 16, 8, 14336),
        ("27b", 27_227_128_320, 4608, 46, 32, 16, 36864, {"head_dim": 128}),
        model_type="gemma2",
        head_dim=256,
        vocab_size=256000,
        max_position_embeddings=8192,
        sliding_window=4096,
        tie_word_embeddings=True,
    ),
    "gemma3": (
        *_series(
            "gemma3-270m", "google/gemma-3-270m", ("", 268_098_176, 640, 18, 4, 1, 2048), **_GEMMA3
        ),
        *_series(
            "gemma3-1b", "google/gemma-3-1b-pt", ("", 999_885_952, 1152, 26, 4, 1, 6912), **_GEMMA3
        ),
    ),
    "mistral": _series(
        "mistral-{}",
        "mistralai/Mistral-{upper}-v0.1",
        ("7b", 7_241_732_096, 4096, 32, 32, 8, 14336),
        model_type="mistral",
        vocab_size=32000,
        max_position_embeddings=32768,
        sliding_window=4096,
        tie_word_embeddings=False,
    ),
    "phi": (
        *_series(
            "phi-1.5", "microsoft/phi-1_5", ("", 1_418_270_720, 2048, 24, 32, 32, 8192), **_PHI
        ),
        *_series("phi-2", "microsoft/phi-2", ("", 2_779_683_840, 2560, 32, 32, 32, 10240), **_PHI),
    ),
    "phi-3": _series(
        "phi-3-mini",
        "microsoft/Phi-3-mini-4k-instruct",
        ("", 3_821_079_552, 3072, 32, 32, 32, 8192),
        model_type="phi3",
        vocab_size=32064,
        max_position_embeddings=4096,
        sliding_window=2047,
        tie_word_embeddings=False,
        pad_token_id=32000,
    ),
    "stablelm": _series(
        "stablelm-3b",
        "stabilityai/stablelm-3b-4e1t",
        ("", 2_795_443_200, 2560, 32, 32, 32, 6912),
        model_type="stablelm",
        vocab_size=50304,
        max_position_embeddings=4096,
        use_qkv_bias=False,
        tie_word_embeddings=False,
    ),
    "falcon": _series(
        "falcon-7b",
        "tiiuae/falcon-7b",
        ("", 6_921_720_704, 4544, 32, 71),
        keys=("hidden_size", "num_hidden_layers", "num_attention_heads"),
        model_type="falcon",
        vocab_size=65024,
        max_position_embeddings=2048,
        multi_query=True,
        parallel_attn=True,
        bias=False,
        alibi=False,
        new_decoder_architecture=False,
    ),
    "olmo2": _series(
        "olmo2-{}",
        "allenai/OLMo-2-1124-{upper}",
        ("7b", 7_298_617_344, 4096, 32, 32, 32, 11008),
        ("13b", 13_716_198_400, 5120, 40, 40, 40, 13824),
        model_type="olmo2",
        vocab_size=100352,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    ),
}


def members() -> Iterator[Member]:
    """Yield every model of every family."""
    for family in FAMILIES.values():
        yield from family


def family(name: str) -> tuple[Member, ...]:
    """Return the models of one family, smallest first.

    Raises:
        UsageError: there is no such family.
    """
    return FAMILIES[require_choice("family", name, FAMILIES)]


def find(name: str) -> Member | None:
    """Return the model called ``name`` here or on the hub; case is ignored."""
    wanted = name.lower()
    return next((m for m in members() if wanted in (m.name, m.repository.lower())), None)
