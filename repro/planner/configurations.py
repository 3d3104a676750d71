"""Convert a configuration of transformers, as in ``config.json``, to an ``Architecture``.

Every model type has its own rules, with the defaults of transformers' class for fields that a file
may omit. Nothing of transformers is imported, since that takes seconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

from repro.core.errors import UsageError
from repro.core.validation import require_whole
from repro.planner.architecture import LARGEST_SIZE, MOST_LAYERS, Activation, Architecture

Config = Mapping[str, Any]


class NoFormulaError(UsageError):
    """The formula does not cover the model; a simulation may."""

    def __init__(
        self, subject: str, reason: str = "the formula does not know this variant"
    ) -> None:
        """``subject`` names the unknown model or variant."""
        self.subject = subject
        super().__init__(
            f"{subject}: {reason}; a simulation (repro plan --simulate) takes any causal language "
            "model of transformers"
        )


_LAYERS = ("num_hidden_layers", "n_layer")
_SIZES = (*_LAYERS, "hidden_size", "n_embd", "vocab_size")
"""Fields that decide most of a model's memory."""


def _defaults(
    hidden: int,
    layers: int,
    heads: int,
    feed_forward: int,
    vocabulary: int,
    positions: int,
    **others: object,
) -> dict[str, object]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": feed_forward,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        **others,
    }


_GEMMA2 = {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True}
_DEFAULTS: dict[str, Config] = {
    "llama": _defaults(4096, 32, 32, 11008, 32000, 2048),
    "mistral": _defaults(4096, 32, 32, 14336, 32000, 131072, num_key_value_heads=8),
    "qwen2": _defaults(4096, 32, 32, 22016, 151936, 32768, num_key_value_heads=32),
    "qwen3": _defaults(4096, 32, 32, 22016, 151936, 32768, num_key_value_heads=32, head_dim=128),
    "gemma": _defaults(
        3072, 28, 16, 24576, 256000, 8192,
        num_key_value_heads=16, head_dim=256, tie_word_embeddings=True,
    ),
    "gemma2": _defaults(2304, 26, 8, 9216, 256000, 8192, **_GEMMA2),
    "gemma3_text": _defaults(2304, 26, 8, 9216, 262208, 131072, **_GEMMA2),
    "gpt2": {
        "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024,
    },
    "gpt_neox": _defaults(6144, 44, 64, 24576, 50432, 2048),
    "opt": _defaults(768, 12, 12, 3072, 50272, 2048, ffn_dim=3072),
    "phi": _defaults(2048, 24, 32, 8192, 51200, 2048),
    "phi3": _defaults(3072, 32, 32, 8192, 32064, 4096),
    "falcon": _defaults(4544, 32, 71, 4 * 4544, 65024, 2048),
    "stablelm": _defaults(2560, 32, 32, 6912, 50304, 4096, num_key_value_heads=32),
    "olmo2": _defaults(4096, 32, 32, 11008, 50304, 2048),
    "smollm3": _defaults(
        2048, 36, 16, 11008, 128256, 32768, num_key_value_heads=4, tie_word_embeddings=True
    ),
}  # fmt: skip
"""The sizes that transformers' class of each model type has for fields that a file leaves out."""

_ALIASES: dict[str, Mapping[str, str]] = {
    "gpt2": {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
    },
    "falcon": {"n_embed": "hidden_size"},
}
"""Other names of fields, by model type; as in transformers, their values come first."""

_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu_new": "composed",
    "silu": "fused",
    "swish": "fused",
    "gelu": "fused",
    "gelu_pytorch_tanh": "fused",
}


def architecture(config: Config) -> Architecture:
    """Return the sizes of the model described by ``config``, or of its text part.

    Raises:
        NoFormulaError: the formula does not cover the model type or variant.
        UsageError: a size is missing or wrong; the message says what to do.
    """
    config = _text_part(config)
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in _READERS:
        raise NoFormulaError(
            f"model type {model_type!r}", f"the formula knows {', '.join(_READERS)}"
        )
    try:
        return _READERS[model_type]({**_DEFAULTS[model_type], **config})
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise UsageError(
            f"configuration of type {model_type!r}: a value has the wrong type ({error}); give the "
            "config.json of a model of transformers"
        ) from error


def notes_on(config: Config) -> list[str]:
    """Return sentences on what a plan for the model of ``config`` leaves out."""
    notes = []
    parts = [
        name.removesuffix("_config")
        for name in ("vision_config", "audio_config")
        if config.get(name)
    ]
    if parts:
        notes.append(f"only the text part is planned, without the {' and '.join(parts)} part")
    if _text_part(config).get("quantization_config") or config.get("quantization_config"):
        notes.append(
            "the file's weights are quantised, but --dtype decides the planned number format"
        )
    text = _text_part(config)
    usual = _DEFAULTS.get(str(text.get("model_type")), {})
    if missing := [f"{n} = {usual[n]}" for n in _SIZES if n in usual and n not in text]:
        notes.append(
            f"the configuration lacks sizes; transformers' are taken: {', '.join(missing)}"
        )
    return notes


def _text_part(config: Config) -> Config:
    """Return the configuration of the text part, with fields under their usual names."""
    text = config.get("text_config")
    part = text if isinstance(text, Mapping) else config
    aliases = _ALIASES.get(str(part.get("model_type")), {})
    given = {own: part.get(other) for other, own in aliases.items()}
    return {**part, **{name: value for name, value in given.items() if value is not None}}


def _llama_like(config: Config, **differences: Any) -> Architecture:  # noqa: ANN401 - of any field
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    values: dict[str, Any] = {
        "model_type": config["model_type"],
        "layers": _size(config, "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": _size_or(config, "num_key_value_heads", heads),
        "head_size": _quotient(hidden, heads)
        if config.get("head_dim") is None
        else _size(config, "head_dim"),
        "feed_forward": _size(config, "intermediate_size"),
        "vocabulary": _size(config, "vocab_size"),
        "positions": _size(config, "max_position_embeddings"),
        "tied": _flag(config, "tie_word_embeddings", default=False),
        "activation": _activation(config.get("hidden_act", "silu")),
    }
    known = Architecture(**values | differences)
    if known.gated and known.activation == "composed":
        raise NoFormulaError("a gated feed-forward network with gelu_new")
    return known


def _llama(config: Config) -> Architecture:
    _equal_heads(config)  # the class refuses other sizes even if head_dim is given
    mlp_bias = _flag(config, "mlp_bias", default=False)
    return _llama_like(config, **_attention_bias(config), feed_forward_bias=mlp_bias)


_CAPS = ("attn_logit_softcapping", "final_logit_softcapping")


def _gemma2(config: Config) -> Architecture:
    for cap in _CAPS:
        if config.get(cap, 1) is None:  # by default both are bounded
            raise _unknown(config, cap)
    return _llama_like(
        config,
        norm="rms32",
        norms=4,
        post_norm=True,
        activation=_activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        eager_only=True,
        capped=True,
        masks=2,
        **_attention_bias(config),
    )


def _gemma3(config: Config) -> Architecture:
    _equal_heads(config)  # the class refuses other sizes even if head_dim is given
    for cap in _CAPS:
        if config.get(cap):
            raise _unknown(config, cap)
    period = _size({"sliding_window_pattern": 6, **config}, "sliding_window_pattern")
    return _llama_like(
        config,
        norm="rms32",
        norms=4,
        post_norm=True,
        activation=_activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        query_key_norm="head",
        **_attention_bias(config),
        masked=_masked(config, lambda block: (block + 1) % period > 0),
        masks=2,
        window=_size({"sliding_window": 4096, **config}, "sliding_window"),
    )


def _stablelm(config: Config) -> Architecture:
    if config.get("qk_layernorm"):
        raise _unknown(config, "qk_layernorm")
    parallel = _flag(config, "use_parallel_residual", default=False)
    return _llama_like(
        config,
        norm="layer",
        norms=1 if parallel else 2,
        parallel=parallel,
        head_size=_equal_heads(config),
        joined_rotation=True,
        held=0 if parallel else 2,
        qkv_bias=_flag(config, "use_qkv_bias", default=False),
    )


def _phi(config: Config) -> Architecture:
    if config.get("qk_layernorm"):
        raise _unknown(config, "qk_layernorm")
    return _llama_like(
        config,
        norm="layer",
        norms=1,
        gated=False,
        parallel=True,
        activation=_activation(config.get("hidden_act", "gelu_new")),
        joined_rotation=True,
        qkv_bias=True,
        output_bias=True,
        feed_forward_bias=True,
        head_bias=True,
    )


def _gpt_neox(config: Config) -> Architecture:
    return _llama_like(
        config,
        head_size=_equal_heads(config),
        kv_heads=_size(config, "num_attention_heads"),  # the class knows no others
        norm="layer",
        gated=False,
        parallel=_flag(config, "use_parallel_residual", default=True),
        activation=_activation(config.get("hidden_act", "gelu")),
        joined_rotation=True,
        fused_qkv=True,
        **_attention_bias(config, default=True),
        feed_forward_bias=True,
    )


def _gpt2(config: Config) -> Architecture:
    for key in ("reorder_and_upcast_attn", "add_cross_attention"):
        if config.get(key):
            raise _unknown(config, key)
    hidden = _size(config, "n_embd")
    renamed = {
        "model_type": "gpt2",
        "hidden_size": hidden,
        "num_hidden_layers": _size(config, "n_layer"),
        "num_attention_heads": _size(config, "n_head"),
        "intermediate_size": _size_or(config, "n_inner", 4 * hidden),
        "vocab_size": _size(config, "vocab_size"),
        "max_position_embeddings": _size(config, "n_positions"),
    }
    return _llama_like(
        renamed,
        tied=_flag(config, "tie_word_embeddings", default=True),
        norm="layer",
        gated=False,
        activation=_activation(config.get("activation_function", "gelu_new")),
        rotary=False,
        fused_qkv=True,
        qkv_bias=True,
        output_bias=True,
        feed_forward_bias=True,
        position_rows=renamed["max_position_embeddings"],
        held=1,
        float32_softmax=False,
    )


def _opt(config: Config) -> Architecture:
    hidden = _size(config, "hidden_size")
    if config.get("word_embed_proj_dim", hidden) != hidden:
        raise _unknown(config, "word_embed_proj_dim")
    if not _flag(config, "do_layer_norm_before", default=True):
        raise _unknown(config, "do_layer_norm_before")
    if not _flag(config, "layer_norm_elementwise_affine", default=True):
        raise _unknown(config, "layer_norm_elementwise_affine")
    if _flag(config, "_remove_final_layer_norm", default=False):
        raise _unknown(config, "_remove_final_layer_norm")
    bias = _flag(config, "enable_bias", default=True)
    return _llama_like(
        {**config, "intermediate_size": _size(config, "ffn_dim")},
        head_size=_equal_heads(config),
        kv_heads=_size(config, "num_attention_heads"),  # as in gpt_neox
        tied=_flag(config, "tie_word_embeddings", default=True),
        norm="layer",
        gated=False,
        activation=_activation(config.get("activation_function", "relu")),
        rotary=False,
        qkv_bias=bias,
        output_bias=bias,
        feed_forward_bias=bias,
        position_rows=_size(config, "max_position_embeddings") + 2,  # OPT's class begins at row 2
        inline_feed_forward=True,
    )


def _falcon(config: Config) -> Architecture:
    if config.get("alibi"):
        raise _unknown(config, "alibi")
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    new = _flag(config, "new_decoder_architecture", default=False)
    own = _size_or(config, "num_kv_heads", heads) if new else heads
    parallel = new or _flag(config, "parallel_attn", default=True)
    two = new and config.get("num_ln_in_parallel_attn") in (None, 2)
    single = _flag(config, "multi_query", default=True) and not new
    bias = _flag(config, "bias", default=False)
    return _llama_like(
        {
            **config,
            "intermediate_size": _size_or(config, "ffn_hidden_size", 4 * hidden),
        },
        kv_heads=1 if single else own,
        tied=_flag(config, "tie_word_embeddings", default=True),
        norm="layer",
        norms=2 if two or not parallel else 1,
        gated=False,
        parallel=parallel,
        activation=_activation(config.get("activation", "gelu")),
        fused_qkv=True,
        split_copies=new or single,  # else they are views
        held=1 if parallel and two else 0 if parallel else 2,
        # Falcon's class always makes a mask, to which it could add alibi
        masked=(True,) * _size(config, "num_hidden_layers"),
        qkv_bias=bias,
        output_bias=bias,
        feed_forward_bias=bias,
        float32_softmax=False,
        score_rows=4,
    )


def _attention_bias(config: Config, *, default: bool = False) -> dict[str, Any]:
    bias = _flag(config, "attention_bias", default=default)
    return {"qkv_bias": bias, "output_bias": bias}


def _size(config: Config, key: str) -> int:
    most = MOST_LAYERS if key in _LAYERS else LARGEST_SIZE
    where = f"configuration of type {config.get('model_type')!r}: {key}"
    return require_whole(where, config.get(key), 1, most)


def _size_or(config: Config, key: str, otherwise: int) -> int:
    """Return a size, or ``otherwise`` where it is missing or null."""
    return otherwise if config.get(key) is None else _size(config, key)


def _flag(config: Config, key: str, *, default: bool) -> bool:
    """Return a setting that is true or false; null is false, as for transformers."""
    value = config.get(key, default)
    if not isinstance(value, bool | None):
        raise UsageError(
            f"configuration of type {config.get('model_type')!r}: {key} = {value!r:.40}: must be "
            "true or false"
        )
    return bool(value)


def _equal_heads(config: Config) -> int:
    """Return the size of a head where the model's class ignores ``head_dim``."""
    return _quotient(_size(config, "hidden_size"), _size(config, "num_attention_heads"))


def _quotient(hidden: int, heads: int) -> int:
    if hidden % heads:
        raise UsageError(
            f"configuration: {heads} heads do not divide the hidden size {hidden}; correct one of "
            "the two"
        )
    return hidden // heads


def _activation(name: str) -> Activation:
    if name not in _ACTIVATIONS:
        raise NoFormulaError(f"activation {name!r}", f"the formula knows {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _masked(config: Config, otherwise: Callable[[int], bool]) -> tuple[bool, ...]:
    """Return whether each block has a window: by ``layer_types``, else by the block's number."""
    layers = _size(config, "num_hidden_layers")
    types = config.get("layer_types")
    if types is None:
        return tuple(map(otherwise, range(layers)))
    if len(types) != layers or not set(types) <= {"full_attention", "sliding_attention"}:
        raise _unknown(config, "layer_types")
    return tuple(name == "sliding_attention" for name in types)


def _windows(config: Config, window: int | None) -> dict[str, Any]:
    """Return the fields for a sliding window in all blocks."""
    if window is None:
        return {}
    _size({**config, "sliding_window": window}, "sliding_window")
    return {"masked": (True,) * _size(config, "num_hidden_layers"), "window": window}


def _qwen_windows(config: Config) -> dict[str, Any]:
    window = config.get("sliding_window", 4096) if config.get("use_sliding_window") else None
    first = config.get("max_window_layers", 28)
    masked = _masked(config, lambda block: block >= first)
    if window is None or not any(masked):
        return {}
    return {**_windows(config, window), "masked": masked, "masks": 2}


def _smollm3(config: Config) -> Architecture:
    if config.get("use_sliding_window"):  # in the blocks without rotation
        raise _unknown(config, "use_sliding_window")
    return _llama(config)


def _unknown(config: Config, key: str) -> NoFormulaError:
    return NoFormulaError(f"model type {config['model_type']!r} with {key} = {config[key]!r}")


_READERS: dict[str, Callable[[Config], Architecture]] = {
    "llama": _llama,
    "mistral": lambda config: _llama_like(
        config,
        # null means none; only a missing one is 4,096
        **_windows(config, config.get("sliding_window", 4096)),
    ),
    "qwen2": lambda config: _llama_like(config, qkv_bias=True, **_qwen_windows(config)),
    "qwen3": lambda config: _llama_like(
        config, query_key_norm="head", **_attention_bias(config), **_qwen_windows(config)
    ),
    "gemma": lambda config: _llama_like(
        config,
        norm="rms32",
        activation=_activation(config.get("hidden_act", "gelu_pytorch_tanh")),
        **_attention_bias(config),
    ),
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "phi": _phi,
    "phi3": lambda config: _llama_like(
        config,
        fused_qkv=True,
        fused_gate=True,
        joined_rotation=True,
        **_windows(config, config.get("sliding_window")),
    ),
    "falcon": _falcon,
    "stablelm": _stablelm,
    "olmo2": lambda config: _llama_like(
        config,
        norm="rms32",
        post_norm=True,
        query_key_norm="wide",
        float32_rotation=True,
        **_attention_bias(config),
    ),
    "smollm3": _smollm3,
}
