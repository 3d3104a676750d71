"""Llama-architecture decoders of any size with random weights, for memory studies.

The class is transformers' own ``LlamaForCausalLM``, so simulations and measurements use the model
that people train, not a copy of it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import LlamaConfig


def llama_intermediate_size(hidden: int) -> int:
    """Return the width of Llama 2's feed-forward network for a hidden size.

    It is two thirds of 4 D, rounded up to a multiple of 256 for D >= 4096, as in the released
    models (11008 for 7B, 13824 for 13B). Below, it is rounded up to a multiple of D/16, so that
    small models have the same proportions.
    """
    multiple = max(1, min(256, hidden // 16))
    return -(-(8 * hidden // 3) // multiple) * multiple


def llama_config(
    *, context: int, layers: int, hidden: int, heads: int, vocabulary: int
) -> "LlamaConfig":
    """Return the configuration of a Llama 2 decoder of the given sizes (multi-head, untied)."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=llama_intermediate_size(hidden),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        use_cache=False,
        tie_word_embeddings=False,
    )
