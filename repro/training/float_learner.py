"""Train floating-point networks by backpropagation or ElasticZO, in PyTorch or on the engine."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.methods.step_info import StepInfo
from repro.ondevice.floating import NativeElasticZO
from repro.training.loop import Labelled, NetworkLearner


class FloatLearner(NetworkLearner):
    """Minimises the cross-entropy of a classifier, with a step-wise decaying learning rate."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,  # noqa: ANN401 - MeZO, ElasticZO or Backprop
        *,
        prepare: Callable[[Tensor], Tensor],
        decay: float,
        decay_every: int,
    ) -> None:
        """Bind a method to a classifier, which trains in its present mode.

        Args:
            model: returns logits [B, classes]. In evaluation mode its batch norms are frozen.
            optimizer: one of ``repro.methods``, made for the parameters of ``model``.
            prepare: converts a batch of the data set to the model's input.
            decay: factor applied to the learning rate (0.8 in the ElasticZO paper).
            decay_every: number of epochs between decays (10 in the paper).
        """
        self.model, self._mode = model, model.training
        self.optimizer = optimizer
        self.prepare = prepare
        self.decay, self.decay_every = decay, decay_every
        self.initial_lr = [group["lr"] for group in optimizer.param_groups]

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rate of ``epoch``."""
        factor = self.decay ** (epoch // self.decay_every)
        for group, lr in zip(self.optimizer.param_groups, self.initial_lr, strict=True):
            group["lr"] = lr * factor

    def step(self, batch: Labelled) -> StepInfo:
        """Train on one minibatch; in training mode batch norm uses the minibatch's statistics."""
        inputs, labels = batch
        self.model.train(self._mode)  # an evaluation may have left the other mode
        inputs = self.prepare(inputs)
        self.optimizer.step(lambda: self.loss(inputs, labels))
        info: StepInfo = self.optimizer.last
        return info

    @torch.no_grad()
    def evaluate(self, batch: Labelled) -> tuple[float, int]:
        """Return the summed cross-entropy of a batch, and the number of correct predictions."""
        inputs, labels = batch
        logits = self._logits(inputs)
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        return float(loss), int((logits.argmax(1) == labels).sum())

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``."""
        self.load_weights(state)
        self.optimizer.load_state_dict(state["optimizer"])

    def load_weights(self, state: dict[str, Any]) -> None:
        """Start with the weights, and nothing else, of another learner's state."""
        self.model.load_state_dict(state["model"])

    def _logits(self, inputs: Tensor) -> Tensor:
        self.model.eval()
        logits: Tensor = self.model(self.prepare(inputs))
        return logits

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy for prepared inputs."""
        return functional.cross_entropy(self.model(inputs), labels)


class NativeLearner(FloatLearner):
    """A network trained and evaluated by the on-device engine.

    The engine has its own noise, so its runs resume only from its own states. The initial weights
    may come from a PyTorch run.
    """

    optimizer: NativeElasticZO

    def step(self, batch: Labelled) -> StepInfo:
        """Train on one minibatch."""
        inputs, labels = batch
        return self.optimizer.step(self.prepare(inputs), labels)

    def _logits(self, inputs: Tensor) -> Tensor:
        return self.optimizer.forward(self.prepare(inputs))
