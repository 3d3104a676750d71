"""The shape of a model of a given number of parameters, if no configuration is given.

The rule is Llama 2's own proportion: D = 128 L with heads of 128 (4096 = 128 x 32 for 7B, 5120 =
128 x 40 for 13B), a gated feed-forward network of 8 D / 3 rounded as Llama 2 rounds it, as many
key/value heads as heads, an untied vocabulary of 32000, and 4096 positions. L is chosen for the
nearest number of parameters, and the resulting count is shown.
"""

from typing import Any

from repro.core.errors import UsageError
from repro.core.units import parse_count
from repro.models.decoder import llama_intermediate_size
from repro.planner.configurations import architecture

HEAD = 128
VOCABULARY = 32000
POSITIONS = 4096
DEEPEST = 1000
"""Upper limit of blocks in the search: 25 T parameters."""


def config_of(parameters: str) -> dict[str, Any]:
    """Return the configuration of the Llama nearest to a count such as ``7B`` or ``350M``.

    Raises:
        UsageError: ``parameters`` is not a count, or is below that of a single block.
    """
    wanted = parse_count("params", parameters)
    least = architecture(_config(1)).parameters
    if wanted < least / 2:
        msg = (
            f"params = {parameters!r}: a Llama of one block has {least:,} parameters; give more, "
            "or --model with a config.json"
        )
        raise UsageError(msg)
    return min(
        (_config(layers) for layers in range(1, DEEPEST + 1)),
        key=lambda config: abs(architecture(config).parameters - wanted),
    )


def _config(layers: int) -> dict[str, Any]:
    hidden = HEAD * layers
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": layers,
        "num_key_value_heads": layers,
        "intermediate_size": llama_intermediate_size(hidden),
        "vocab_size": VOCABULARY,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": False,
    }
