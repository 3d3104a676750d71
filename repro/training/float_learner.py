"""A floating-point network trained by backpropagation or ElasticZO."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.methods.method import Method
from repro.methods.step_info import StepInfo


class FloatLearner:
    """Minimises the cross-entropy of a classifier, with a learning rate that falls in steps."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,  # noqa: ANN401 - MeZO, ElasticZO, Backprop: what torch calls an Optimizer
        *,
        prepare: Callable[[Tensor], Tensor],
        decay: float,
        decay_every: int,
    ) -> None:
        """Bind a method to a classifier.

        Args:
            model: returns logits [B, classes].
            optimizer: one of ``repro.methods``, made for the parameters of ``model``.
            prepare: turns a batch of the data set into the model's input.
            decay: factor of the learning rate (ElasticZO paper: 0.8) ...
            decay_every: ... after so many epochs (10).
        """
        self.model = model
        self.optimizer = optimizer
        self.prepare = prepare
        self.decay, self.decay_every = decay, decay_every
        self.initial_lr = [group["lr"] for group in optimizer.param_groups]
        self.method = Method(optimizer, self._loss)

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rate of ``epoch``."""
        factor = self.decay ** (epoch // self.decay_every)
        for group, lr in zip(self.optimizer.param_groups, self.initial_lr, strict=True):
            group["lr"] = lr * factor

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Train on one minibatch; batch norm uses its statistics."""
        self.model.train()
        return self.method.step((self.prepare(inputs), labels))

    @torch.no_grad()
    def evaluate(self, inputs: Tensor, labels: Tensor) -> tuple[float, int]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted."""
        self.model.eval()
        logits = self.model(self.prepare(inputs))
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss), int((logits.argmax(1) == labels).sum())

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return nothing: nothing is counted."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def load_weights(self, state: dict[str, Any]) -> None:
        """Begin with the weights, and nothing else, of another learner's state."""
        self.model.load_state_dict(state["model"])

    def _loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self.model(inputs), labels)
