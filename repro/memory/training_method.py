"""A way to train a language model, as far as its memory depends on it."""

from dataclasses import dataclass
from typing import Literal


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
