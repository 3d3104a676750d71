"""Train networks, in PyTorch or on the engine: in floating point and in integers.

Floating-point networks train by backpropagation or ElasticZO, integer networks by ElasticZO-INT8
with its schedule.
"""

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.integer.elasticzo_int8 import Algorithm2
from repro.integer.loss import float_cross_entropy
from repro.integer.schedule import Schedule
from repro.integer.sign import compare
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import StepInfo
from repro.methods.watch import PassesDifferWarning
from repro.ondevice.floating import NativeElasticZO
from repro.training.loop import Labelled, NetworkLearner

COUNTS = ("steps", "integer_is_float", "exact_is_float", "integer_is_exact", "integer_is_zero")
"""Counts of an epoch: all steps, steps at which two rules agree, and steps with integer g = 0."""


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
        self._is_first = True  # as methods warn in their first step

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
        # the published method runs batch norm in training mode, so both passes of a zeroth-order
        # step update its statistics
        allowed = warnings.catch_warnings(action="ignore", category=PassesDifferWarning)
        with allowed if self._is_first else nullcontext():
            self.optimizer.step(lambda: self.loss(inputs, labels))
        self._is_first = False
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


class IntegerLearner(NetworkLearner):
    """Trains on a data set quantised once, with one exponent."""

    def __init__(
        self, method: Algorithm2, exponent: int, schedule: Schedule, *, count_signs: bool = False
    ) -> None:
        """Take the method, the exponent of all inputs, and the schedule of the run.

        With ``count_signs`` the two losses of each step are also compared by the other rules for
        the gradient's sign, without changing any weight.
        """
        self.method = method
        self.exponent = exponent
        self.schedule = schedule
        self._counts: dict[str, list[dict[str, int]]] = {"restores": []}
        if count_signs:
            self._counts["signs"] = []
            method.watch = self._count_signs

    def start_epoch(self, epoch: int) -> None:
        """Set the bits and the sparsity of ``epoch``, and start its counts."""
        for name, counted in (("restores", ("inexact", "weights")), ("signs", COUNTS)):
            if name in self._counts:
                del self._counts[name][epoch:]
                self._counts[name].append(dict.fromkeys(counted, 0))
        phase = self.schedule.at(epoch)
        self.method.b_bp, self.method.p_zero = phase.b_bp, phase.p_zero

    def step(self, batch: Labelled) -> StepInfo:
        """Train on one batch: inputs int8 [B, ...], labels int64 [B]."""
        inputs, labels = batch
        before = self.method.restores
        info = self.method.step(IntegerTensor(inputs, self.exponent), labels)
        now, after = self._counts["restores"][-1], self.method.restores
        now["inexact"] += after.inexact - before.inexact
        now["weights"] += after.total - before.total
        return info

    def evaluate(self, batch: Labelled) -> tuple[float, int]:
        """Return the summed cross-entropy, in floating point, and the number of correct answers.

        Among equal logits the first class counts as the prediction.
        """
        inputs, labels = batch
        logits = self.method.forward(IntegerTensor(inputs, self.exponent))
        correct = int((logits.values.argmax(1) == labels).sum())
        return float(float_cross_entropy(logits, labels).sum()), correct

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return the number of weights not restored (``restores``) and of agreements between rules.

        The agreements, ``signs``, have the names in ``COUNTS``.
        """
        return self._counts

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from: weights, exponents, random streams, counts."""
        return {
            "network": self.method.network.state_dict(),
            "method": self.method.state_dict(),
            "counts": self._counts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``state_dict``, bit for bit."""
        self.load_weights(state)
        self.method.load_state_dict(state["method"])
        self._counts = {name: [dict(now) for now in of] for name, of in state["counts"].items()}

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Start with the weights, and nothing else, of another learner's state."""
        self.method.network.load_state_dict(state["network"])

    def _count_signs(self, plus: IntegerTensor, minus: IntegerTensor, labels: Tensor) -> None:
        by_float, by_integer, exact = (
            compare(rule, plus, minus, labels).sign for rule in ("float", "integer", "exact")
        )
        now = self._counts["signs"][-1]
        now["steps"] += 1
        now["integer_is_float"] += by_integer == by_float
        now["exact_is_float"] += exact == by_float
        now["integer_is_exact"] += by_integer == exact
        now["integer_is_zero"] += by_integer == 0
