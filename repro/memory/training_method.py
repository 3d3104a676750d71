"""A way to train a language model, as far as its memory depends on it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TrainingMethod:
    """A way to train."""

    slug: str
    label: str
    trains: Literal["all", "adapters", "tail"]
    """What is trained; of ElasticZO, what backpropagation trains of it: the tail."""
    estimator: Literal["backpropagation", "zeroth-order", "both"]
    checkpointed: bool = False
    """Whether every block is recomputed in the backward pass."""
    adam: bool = False
    """Whether two more copies of what is trained are kept; else plain SGD."""
