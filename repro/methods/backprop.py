"""Backpropagation with SGD or Adam, the baseline for the zeroth-order methods."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

import torch

from repro.core.errors import UsageError
from repro.core.names import BackpropRule
from repro.core.validation import require_choice, require_positive
from repro.methods.parameters import trainable
from repro.methods.step_info import PhaseTimer, StepInfo, require_finite, require_number


class Backprop:
    """PyTorch's SGD (no momentum, no weight decay) or Adam, with this package's interface.

    Example::

        backprop = Backprop(model.parameters(), lr=1e-4)
        for x, y in batches:
            backprop.step(lambda: cross_entropy(model(x), y))

    Schedulers and loggers of PyTorch take its ``optimizer``, as in
    ``CosineAnnealingLR(backprop.optimizer, 100)``.

    Gradients live from the backward pass to the update. Activation checkpointing is set up in the
    model (``activation_checkpointing_enable`` in transformers, ``torch.utils.checkpoint``
    elsewhere).
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        *,
        lr: float,
        rule: BackpropRule = "sgd",
        timed: bool = False,
    ) -> None:
        """Take the parameters to train and the learning rate.

        Raises:
            UsageError: ``lr`` is not finite and positive, ``rule`` is unknown, these are parameter
                groups, or there is nothing to train.
        """
        require_choice("rule", rule, get_args(BackpropRule))
        optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[rule]
        self.optimizer: torch.optim.Optimizer = optimizer(
            trainable(parameters, flat=False), lr=require_positive("learning rate lr", lr)
        )
        self.timed = timed
        self.last: StepInfo | None = None

    def step(self, closure: Callable[[], torch.Tensor]) -> float:
        """Compute the loss, its gradient and the update; return the loss.

        Raises:
            ReproError: the loss is not finite; the parameters are unchanged.
            UsageError: the closure returns no number, or one without a gradient, or it calls
                ``backward()``.
        """
        timer = PhaseTimer(enabled=self.timed)
        self.optimizer.zero_grad(set_to_none=True)  # a step that failed may have left some
        with timer("forward"), torch.enable_grad():
            loss = closure()
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            raise UsageError(
                "the closure calls backward(), and step() does so itself: return the loss and do "
                "nothing else"
            )
        require_number(loss)
        if not getattr(loss, "requires_grad", False):
            raise UsageError(
                "the closure returned a loss without a gradient: compute it as a tensor from the "
                "trained parameters, without torch.no_grad()"
            )
        value = require_finite(loss.detach(), "loss")
        self.descend(loss, timer)
        self.last = StepInfo(value, (), timer.seconds)
        return value

    def __repr__(self) -> str:
        """Show the settings, as PyTorch's optimizers do."""
        return f"Backprop({self.optimizer!r})"

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameters and their learning rate, as in ``torch.optim``."""
        return self.optimizer.param_groups

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, without the weights."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``."""
        self.optimizer.load_state_dict(state_dict)

    def descend(self, loss: torch.Tensor, timer: PhaseTimer) -> None:
        """Update along the gradient of ``loss``, without checking that it is finite."""
        with timer("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with timer("update"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
