"""What the training loop needs of a model under training by some method."""

from typing import Any, Protocol

from torch import Tensor

from repro.methods.step_info import StepInfo


class Learner(Protocol):
    """A model and the method that trains it."""

    def start_epoch(self, epoch: int) -> None:
        """Set what a schedule decides for ``epoch``, counted from 0."""

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Train on one minibatch."""

    def evaluate(self, inputs: Tensor, labels: Tensor) -> tuple[float, int]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted."""

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return what is counted while it trains, by name: one table for each epoch."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""

    def load_weights(self, state: dict[str, Any]) -> None:
        """Begin with the weights, and nothing else, of another learner's state."""
