"""A float32 network that the on-device engine trains and evaluates."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

from repro.methods.step_info import StepInfo
from repro.ondevice.floating import NativeElasticZO


class NativeLearner:
    """Does by the engine what ``FloatLearner`` does by PyTorch.

    The engine has noise of its own, so a run goes on with what it began with; but the weights to
    begin with may be a ``FloatLearner``'s.
    """

    def __init__(
        self,
        method: NativeElasticZO,
        *,
        prepare: Callable[[Tensor], Tensor],
        decay: float,
        decay_every: int,
    ) -> None:
        """Bind the engine's training to a classifier; see ``FloatLearner``."""
        self.method = method
        self.prepare = prepare
        self.decay, self.decay_every = decay, decay_every
        self.initial_lr = method.lr

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rate of ``epoch``."""
        self.method.lr = self.initial_lr * self.decay ** (epoch // self.decay_every)

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Train on one minibatch."""
        return self.method.step(self.prepare(inputs), labels)

    def evaluate(self, inputs: Tensor, labels: Tensor) -> tuple[float, int]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted."""
        logits = self.method.forward(self.prepare(inputs))
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss), int((logits.argmax(1) == labels).sum())

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return nothing: nothing is counted."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs."""
        return {"model": self.method.model.state_dict(), "optimizer": self.method.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        self.method.model.load_state_dict(state["model"])
        self.method.load_state_dict(state["optimizer"])

    def load_weights(self, state: dict[str, Any]) -> None:
        """Begin with the weights, and nothing else, of another learner's state."""
        self.method.model.load_state_dict(state["model"])
