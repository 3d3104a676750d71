"""The real sizes of a causal language model, which 12 L D^2 + 2 V D only approximates."""

from dataclasses import dataclass
from typing import Literal

from repro.core.errors import UsageError
from repro.core.validation import require_whole

Norm = Literal["rms", "rms32", "layer"]
"""RMSNorm as in Llama; RMSNorm that multiplies by its weight in float32, too (Gemma, OLMo 2);
LayerNorm."""

LARGEST_SIZE = 2**31
"""Larger than any dimension of a model; products of several dimensions are finite floats."""
MOST_LAYERS = 2**16
"""Limit of blocks, since some code visits them one by one."""
Activation = Literal["fused", "relu", "composed"]
"""How the feed-forward network's non-linearity is computed: by one operator; by a ReLU, whose
backward pass needs only its output; or, like ``gelu_new``, by eight elementwise operators."""


@dataclass(frozen=True)
class Architecture:
    """A decoder-only transformer, as built by its class in transformers."""

    model_type: str
    """The configuration's ``model_type``: ``llama``, ``gpt2``, ..."""
    layers: int
    """L, decoder blocks."""
    hidden: int
    """D, width of the residual stream."""
    heads: int
    """H, query heads."""
    kv_heads: int
    """K, key/value heads; they divide H."""
    head_size: int
    """Width of a head; D / H in most models, but not in all."""
    feed_forward: int
    """F, width of the feed-forward network."""
    vocabulary: int
    """V, rows of the embedding."""
    positions: int
    """The longest context according to the configuration."""
    tied: bool
    """Whether the output layer shares the embedding's weights."""
    gated: bool = True
    """Whether the feed-forward network has a gate: three matrices instead of two."""
    activation: Activation = "fused"
    norm: Norm = "rms"
    norms: int = 2
    """Norms of width D in a block."""
    post_norm: bool = False
    """Whether a norm follows the feed-forward network; if a block has two norms, none precedes it
    or attention."""
    query_key_norm: Literal["none", "head", "wide"] = "none"
    """RMSNorm of queries and keys: of the width of one head, of all heads together, or none."""
    rotary: bool = True
    """Whether queries and keys are rotated."""
    joined_rotation: bool = False
    """Whether rotated queries are joined from a rotated and an unrotated part."""
    float32_rotation: bool = False
    """Whether queries and keys are rotated in float32."""
    fused_qkv: bool = False
    """Whether queries, keys and values are one matrix's output."""
    split_copies: bool = False
    """Whether that output is split into copies, not into views that keep all of it alive."""
    fused_gate: bool = False
    """Whether gate and up projection are one matrix."""
    parallel: bool = False
    """Whether attention and feed-forward network read the same input."""
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    head_bias: bool = False
    position_rows: int = 0
    """Rows of a learned position embedding."""
    masked: tuple[bool, ...] = ()
    """For each block, whether SDPA needs an explicit N x N mask for it if the context reaches
    ``window``; empty if none does."""
    window: int = 0
    """Width of the sliding window of those blocks."""
    held: int = 0
    """Number of tensors of width D held by a block's code while its feed-forward network runs,
    besides the block's input, the residual stream and the norm's output."""
    inline_feed_forward: bool = False
    """Whether the block's own code, not a module of its own, runs the feed-forward network."""
    float32_softmax: bool = True
    """Whether eager attention computes the softmax in float32."""
    eager_only: bool = False
    """Whether the model's class computes attention by separate operators alone, without SDPA."""
    capped: bool = False
    """Whether attention scores and logits are bounded by a tanh, whose output it stores."""
    masks: int = 1
    """Masks that the class makes for eager attention, for blocks with and without a window."""
    score_rows: int = 2
    """Number of score matrices that eager attention holds at once if it does not: two operands of
    an operator, and in Falcon also the scores without a mask and the previous block's."""

    def __post_init__(self) -> None:
        """Refuse sizes that are not whole or below 1, and indivisible numbers of heads."""
        for name in (
            "layers", "hidden", "heads", "kv_heads", "head_size", "feed_forward", "vocabulary",
            "positions",
        ):  # fmt: skip
            most = MOST_LAYERS if name == "layers" else LARGEST_SIZE
            require_whole(f"{self.model_type}: {name}", getattr(self, name), 1, most)
        if self.heads % self.kv_heads:
            raise UsageError(
                f"{self.model_type}: {self.kv_heads} key/value heads do not divide {self.heads} "
                "heads; correct the configuration"
            )

    def masked_share(self, blocks: int) -> float:
        """Return the fraction of masked blocks among the last ``blocks`` blocks."""
        return sum(self.masked[-blocks:]) / blocks

    @property
    def pre_norm(self) -> bool:
        """Whether a norm precedes attention."""
        return not self.post_norm or self.norms > 2  # one before and one after each part

    @property
    def query_width(self) -> int:
        """Width of all queries together."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Width of all keys together, and of all values."""
        return self.kv_heads * self.head_size

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each matrix of a block, in order."""
        D, Q, K, inner = self.hidden, self.query_width, self.kv_width, self.feed_forward
        attention = ((D, Q + 2 * K),) if self.fused_qkv else ((D, Q), (D, K), (D, K))
        whole = 2 * inner if self.fused_gate else inner
        entry = ((D, whole), (D, whole)) if self.gated and not self.fused_gate else ((D, whole),)
        return (*attention, (Q, D), *entry, (inner, D))

    @property
    def block_matrix_parameters(self) -> int:
        """Elements of a block's matrices, which weight quantisation stores in fewer bits."""
        return sum(inputs * outputs for inputs, outputs in self.matrices)

    @property
    def later_matrix_parameters(self) -> int:
        """Elements of a block's matrices that follow queries, keys and values."""
        first = 1 if self.fused_qkv else 3
        return sum(inputs * outputs for inputs, outputs in self.matrices[first:])

    @property
    def block_parameters(self) -> int:
        """Parameters of one block: matrices, biases, norms."""
        D, Q, K, inner = self.hidden, self.query_width, self.kv_width, self.feed_forward
        biases = (
            (Q + 2 * K) * self.qkv_bias
            + D * self.output_bias
            + (inner * (1 + self.gated) + D) * self.feed_forward_bias
        )
        heads = {"none": 0, "head": 2 * self.head_size, "wide": Q + K}[self.query_key_norm]
        norms = self.norms * self.final_norm_parameters + heads
        return self.block_matrix_parameters + biases + norms

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the token embedding, V D."""
        return self.vocabulary * self.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters of the output layer; 0 if shared with the embedding."""
        matrix = 0 if self.tied else self.vocabulary * self.hidden
        return matrix + (self.vocabulary if self.head_bias else 0)

    @property
    def final_norm_parameters(self) -> int:
        """Parameters of the norm after the last block."""
        return self.hidden * (2 if self.norm == "layer" else 1)

    @property
    def parameters(self) -> int:
        """All parameters, each counted once, as in the model's own class."""
        return (
            self.layers * self.block_parameters
            + self.embedding_parameters
            + self.position_rows * self.hidden
            + self.final_norm_parameters
            + self.head_parameters
        )

    @property
    def body_parameters(self) -> int:
        """Parameters outside the token embedding and the output layer."""
        return self.parameters - self.embedding_parameters - self.head_parameters

    def adapter_parameters(self, rank: int) -> int:
        """Parameters of LoRA adapters of ``rank`` on every matrix of every block."""
        return self.layers * sum(rank * (inputs + outputs) for inputs, outputs in self.matrices)

    def tail_parameters(self, blocks: int) -> int:
        """Parameters of the last ``blocks`` blocks, final norm, and output layer unless tied."""
        return blocks * self.block_parameters + self.final_norm_parameters + self.head_parameters
