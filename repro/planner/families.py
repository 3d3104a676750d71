"""Shapes of released models: facts of the ``config.json`` on the hub, in the names of transformers.

The parameters are the published counts; a test holds the planner's count of every shape equal. The
positions of Qwen2.5 are the context lengths of the models' cards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repro.core.validation import require_choice


@dataclass(frozen=True)
class Member:
    """A released model."""

    name: str
    """How the planner calls it."""
    repository: str
    """Its name on the hub, whose ``config.json`` is the source of the shape."""
    parameters: int
    """As published, or as the weight files on the hub hold them."""
    config: Mapping[str, Any]


_LLAMA_KEYS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
)


def _decoder(
    name: str,
    repository: str,
    parameters: int,
    sizes: tuple[int, ...],
    **rest: object,
) -> Member:
    """Return a member with Llama's keys: D, L, H, K and F in ``sizes``, the rest as it is."""
    return Member(
        name, repository, parameters, {**dict(zip(_LLAMA_KEYS, sizes, strict=True)), **rest}
    )


def _llama2(size: str, parameters: int, *sizes: int) -> Member:
    return _decoder(
        f"llama-2-{size}",
        f"meta-llama/Llama-2-{size}-hf",
        parameters,
        sizes,
        model_type="llama",
        vocab_size=32000,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )


def _llama3(size: str, version: str, parameters: int, *sizes: int, head: int = 128) -> Member:
    return _decoder(
        f"llama-{version}-{size}",
        f"meta-llama/Llama-{version}-{size.upper()}",
        parameters,
        sizes,
        model_type="llama",
        head_dim=head,
        vocab_size=128256,
        max_position_embeddings=131072,
        tie_word_embeddings=version == "3.2",
    )


def _gpt2(size: str, parameters: int, hidden: int, layers: int, heads: int) -> Member:
    name = f"gpt2-{size}" if size else "gpt2"
    return Member(
        name,
        f"openai-community/{name}",
        parameters,
        {
            "model_type": "gpt2",
            "n_embd": hidden,
            "n_layer": layers,
            "n_head": heads,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
    )


def _pythia(
    size: str, parameters: int, hidden: int, layers: int, heads: int, vocabulary: int = 50304
) -> Member:
    return Member(
        f"pythia-{size}",
        f"EleutherAI/pythia-{size}",
        parameters,
        {
            "model_type": "gpt_neox",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
            "vocab_size": vocabulary,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            "use_parallel_residual": True,
        },
    )


def _qwen25(
    size: str, parameters: int, *sizes: int, vocabulary: int = 152064, positions: int = 131072
) -> Member:
    return _decoder(
        f"qwen2.5-{size}",
        f"Qwen/Qwen2.5-{size.upper()}",
        parameters,
        sizes,
        model_type="qwen2",
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        tie_word_embeddings=positions == 32768,
    )


def _qwen3(size: str, parameters: int, *sizes: int, tied: bool = False) -> Member:
    return _decoder(
        f"qwen3-{size}",
        f"Qwen/Qwen3-{size.upper()}",
        parameters,
        sizes,
        model_type="qwen3",
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        tie_word_embeddings=tied,
    )


def _smollm2(size: str, parameters: int, *sizes: int) -> Member:
    return _decoder(
        f"smollm2-{size}",
        f"HuggingFaceTB/SmolLM2-{size.upper()}",
        parameters,
        sizes,
        model_type="llama",
        vocab_size=49152,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )


def _gemma(size: str, parameters: int, *sizes: int) -> Member:
    return _decoder(
        f"gemma-{size}",
        f"google/gemma-{size}",
        parameters,
        sizes,
        model_type="gemma",
        head_dim=256,
        vocab_size=256000,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )


def _gemma3(size: str, parameters: int, *sizes: int) -> Member:
    return _decoder(
        f"gemma3-{size}",
        f"google/gemma-3-{size}-pt" if size != "270m" else "google/gemma-3-270m",
        parameters,
        sizes,
        model_type="gemma3_text",
        head_dim=256,
        vocab_size=262144,
        max_position_embeddings=32768,
        sliding_window=512,
        tie_word_embeddings=True,
    )


def _opt(size: str, parameters: int, hidden: int, layers: int, heads: int) -> Member:
    return Member(
        f"opt-{size}",
        f"facebook/opt-{size}",
        parameters,
        {
            "model_type": "opt",
            "hidden_size": hidden,
            "word_embed_proj_dim": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "ffn_dim": 4 * hidden,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
        },
    )


FAMILIES: dict[str, tuple[Member, ...]] = {
    "smollm2": (
        _smollm2("135m", 134_515_008, 576, 30, 9, 3, 1536),
        _smollm2("360m", 361_821_120, 960, 32, 15, 5, 2560),
        _smollm2("1.7b", 1_711_376_384, 2048, 24, 32, 32, 8192),
    ),
    "gpt2": (
        _gpt2("", 124_439_808, 768, 12, 12),
        _gpt2("medium", 354_823_168, 1024, 24, 16),
        _gpt2("large", 774_030_080, 1280, 36, 20),
        _gpt2("xl", 1_557_611_200, 1600, 48, 25),
    ),
    "pythia": (
        _pythia("70m", 70_426_624, 512, 6, 8),
        _pythia("160m", 162_322_944, 768, 12, 12),
        _pythia("410m", 405_334_016, 1024, 24, 16),
        _pythia("1b", 1_011_781_632, 2048, 16, 8),
        _pythia("1.4b", 1_414_647_808, 2048, 24, 16),
        _pythia("2.8b", 2_775_208_960, 2560, 32, 32),
        _pythia("6.9b", 6_857_302_016, 4096, 32, 32, 50432),
        _pythia("12b", 11_846_072_320, 5120, 36, 40, 50688),
    ),
    "opt": (
        _opt("125m", 125_239_296, 768, 12, 12),
        _opt("1.3b", 1_315_758_080, 2048, 24, 32),
        _opt("2.7b", 2_651_596_800, 2560, 32, 32),
        _opt("6.7b", 6_658_473_984, 4096, 32, 32),
        _opt("13b", 12_853_473_280, 5120, 40, 40),
    ),
    "llama-2": (
        _llama2("7b", 6_738_415_616, 4096, 32, 32, 32, 11008),
        _llama2("13b", 13_015_864_320, 5120, 40, 40, 40, 13824),
        _llama2("70b", 68_976_648_192, 8192, 80, 64, 8, 28672),
    ),
    "llama-3": (
        _llama3("1b", "3.2", 1_235_814_400, 2048, 16, 32, 8, 8192, head=64),
        _llama3("3b", "3.2", 3_212_749_824, 3072, 28, 24, 8, 8192),
        _llama3("8b", "3.1", 8_030_261_248, 4096, 32, 32, 8, 14336),
        _llama3("70b", "3.1", 70_553_706_496, 8192, 80, 64, 8, 28672),
    ),
    "qwen2.5": (
        _qwen25("0.5b", 494_032_768, 896, 24, 14, 2, 4864, vocabulary=151936, positions=32768),
        _qwen25("1.5b", 1_543_714_304, 1536, 28, 12, 2, 8960, vocabulary=151936, positions=32768),
        _qwen25("3b", 3_085_938_688, 2048, 36, 16, 2, 11008, vocabulary=151936, positions=32768),
        _qwen25("7b", 7_615_616_512, 3584, 28, 28, 4, 18944),
        _qwen25("14b", 14_770_033_664, 5120, 48, 40, 8, 13824),
        _qwen25("32b", 32_763_876_352, 5120, 64, 40, 8, 27648),
        _qwen25("72b", 72_706_203_648, 8192, 80, 64, 8, 29568),
    ),
    "qwen3": (
        _qwen3("0.6b", 596_049_920, 1024, 28, 16, 8, 3072, tied=True),
        _qwen3("1.7b", 1_720_574_976, 2048, 28, 16, 8, 6144, tied=True),
        _qwen3("4b", 4_022_468_096, 2560, 36, 32, 8, 9728, tied=True),
        _qwen3("8b", 8_190_735_360, 4096, 36, 32, 8, 12288),
        _qwen3("14b", 14_768_307_200, 5120, 40, 40, 8, 17408),
    ),
    "gemma": (
        _gemma("2b", 2_506_172_416, 2048, 18, 8, 1, 16384),
        _gemma("7b", 8_537_680_896, 3072, 28, 16, 16, 24576),
    ),
    "gemma3": (
        _gemma3("270m", 268_098_176, 640, 18, 4, 1, 2048),
        _gemma3("1b", 999_885_952, 1152, 26, 4, 1, 6912),
    ),
    "mistral": (
        _decoder(
            "mistral-7b",
            "mistralai/Mistral-7B-v0.1",
            7_241_732_096,
            (4096, 32, 32, 8, 14336),
            model_type="mistral",
            vocab_size=32000,
            max_position_embeddings=32768,
            sliding_window=4096,
            tie_word_embeddings=False,
        ),
    ),
    "phi": (
        _decoder(
            "phi-1.5",
            "microsoft/phi-1_5",
            1_418_270_720,
            (2048, 24, 32, 32, 8192),
            model_type="phi",
            vocab_size=51200,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
        ),
        _decoder(
            "phi-2",
            "microsoft/phi-2",
            2_779_683_840,
            (2560, 32, 32, 32, 10240),
            model_type="phi",
            vocab_size=51200,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
        ),
    ),
    "phi-3": (
        _decoder(
            "phi-3-mini",
            "microsoft/Phi-3-mini-4k-instruct",
            3_821_079_552,
            (3072, 32, 32, 32, 8192),
            model_type="phi3",
            vocab_size=32064,
            max_position_embeddings=4096,
            sliding_window=2047,
            tie_word_embeddings=False,
            pad_token_id=32000,
        ),
    ),
    "stablelm": (
        _decoder(
            "stablelm-3b",
            "stabilityai/stablelm-3b-4e1t",
            2_795_443_200,
            (2560, 32, 32, 32, 6912),
            model_type="stablelm",
            vocab_size=50304,
            max_position_embeddings=4096,
            use_qkv_bias=False,
            tie_word_embeddings=False,
        ),
    ),
    "falcon": (
        Member(
            "falcon-7b",
            "tiiuae/falcon-7b",
            6_921_720_704,
            {
                "model_type": "falcon",
                "hidden_size": 4544,
                "num_hidden_layers": 32,
                "num_attention_heads": 71,
                "vocab_size": 65024,
                "max_position_embeddings": 2048,
                "multi_query": True,
                "parallel_attn": True,
                "bias": False,
                "alibi": False,
                "new_decoder_architecture": False,
            },
        ),
    ),
    "olmo2": (
        _decoder(
            "olmo2-7b",
            "allenai/OLMo-2-1124-7B",
            7_298_617_344,
            (4096, 32, 32, 32, 11008),
            model_type="olmo2",
            vocab_size=100352,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
        ),
        _decoder(
            "olmo2-13b",
            "allenai/OLMo-2-1124-13B",
            13_716_198_400,
            (5120, 40, 40, 40, 13824),
            model_type="olmo2",
            vocab_size=100352,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
        ),
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
