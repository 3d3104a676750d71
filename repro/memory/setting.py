"""A language model's training step: its method, the storage of the weights, and its sizes."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, get_args

from repro.core.names import Attention
from repro.core.validation import Checked, Count, require_whole

WeightFormat = Literal["float32", "float16", "bfloat16", "int8", "4bit"]
FORMATS: tuple[WeightFormat, ...] = get_args(WeightFormat)
"""Weight formats. In the last two the blocks' matrices are integers, all else is bfloat16."""

_WIDTHS: dict[WeightFormat, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 2, "4bit": 2}

Loss = Literal["last", "all"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
"""Loss of the token after each sequence, as in a classification prompt, or of every token."""

AdapterFormat = Literal["float32", "activations"]
ADAPTER_FORMATS: tuple[AdapterFormat, ...] = get_args(AdapterFormat)
"""Formats of LoRA adapters: float32, as peft's default, or the activations' own."""

BLOCK_4BIT = 64
"""Weights that share one float32 scale in 4-bit storage: QLoRA's (Dettmers et al. 2023) block."""


Size = Annotated[int, partial(require_whole, least=1, most=2**31)]


@dataclass(frozen=True)
class Setting(Checked):
    """A training step, except for the model and the method."""

    context: Size = 2048
    """N, tokens per sequence."""
    batch: Size = 1
    """B, sequences."""
    format: WeightFormat = "bfloat16"
    attention: Attention = "sdpa"
    loss: Loss = "last"
    rank: Size = 16
    """Rank of LoRA adapters, on every matrix of every block."""
    adapters: AdapterFormat = "float32"
    """Format of the adapters; if it is wider than the activations, they copy their inputs."""
    tail: Count = 1
    """Last blocks that ElasticZO backpropagates, with the final norm and an output layer of its own
    weights (a tied one is the embedding); at least 0."""

    @property
    def quantised(self) -> bool:
        """Whether the matrices of the blocks are stored as integers."""
        return self.format in ("int8", "4bit")

    @property
    def width(self) -> int:
        """b, bytes of an activation, and of an unquantised weight."""
        return _WIDTHS[self.format]

    @property
    def adapter_width(self) -> int:
        """Bytes of an adapter's weight, and of its input."""
        return 4 if self.adapters == "float32" else self.width


@dataclass(frozen=True)
class TrainingMethod:
    """A way to train."""

    slug: str
    label: str
    trains: Literal["all", "adapters", "tail"]
    """The trained parameters; for ElasticZO only the backpropagated ones, the tail."""
    estimator: Literal["backpropagation", "zeroth-order", "both"]
    checkpointed: bool = False
    """Whether every block is recomputed in the backward pass."""
    adam: bool = False
    """Whether two more copies of the trained parameters are kept (Adam); else plain SGD."""
