"""The training loop's interface to a model and its method."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from torch import Tensor

from repro.methods.step_info import StepInfo

Minibatch = TypeVar("Minibatch", bound=tuple[Any, ...])
"""Tensors of a minibatch; the last one holds the labels."""
Labelled = tuple[Tensor, Tensor]
"""The minibatch of a network: inputs [B, ...] and labels, int64 [B]."""


class Learner(ABC, Generic[Minibatch]):
    """A model and the method that trains it."""

    def start_epoch(self, epoch: int) -> None:
        """Apply the schedule to ``epoch``, counted from 0; by default nothing changes."""

    @abstractmethod
    def step(self, batch: Minibatch) -> StepInfo:
        """Train on one minibatch.

        Raises:
            DivergedError: a loss is not finite.
        """

    @abstractmethod
    def evaluate(self, batch: Minibatch) -> tuple[float | Tensor, int | Tensor]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted.

        Both may stay on the device, with the sum in float64, since reading them waits for a GPU.
        """

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return the counts of each epoch of training, by name; by default none."""
        return {}

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``."""


class NetworkLearner(Learner[Labelled]):
    """A network and the method that trains it."""

    @abstractmethod
    def evaluate(self, batch: Labelled) -> tuple[float, int]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted."""

    @abstractmethod
    def load_weights(self, state: dict[str, Any]) -> None:
        """Start with the weights, and nothing else, of another learner's state."""
