"""ElasticZO: zeroth-order for the first layers, backpropagation for the last (arXiv 2501.04287)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal, get_args

import torch

from repro.core.errors import UsageError
from repro.core.validation import require_choice
from repro.methods.interrupts import uninterrupted
from repro.methods.noise import Noise
from repro.methods.parameters import split_at
from repro.methods.step_info import PhaseTimer, StepInfo, require_finite
from repro.methods.walk import Restore
from repro.methods.zeroth_order import Closure, ZerothOrder

Activations = Literal["plus", "minus", "mean"]
"""The forward pass whose activations the backward pass uses; the mean takes both."""
ACTIVATION_WEIGHTS: dict[Activations, tuple[float, float]] = {
    "plus": (1.0, 0.0),
    "minus": (0.0, 1.0),
    "mean": (0.5, 0.5),
}
"""The share of each pass of an estimate in the gradient by backpropagation."""


class ElasticZO(ZerothOrder):
    """Algorithm 1: layers before the partition point by SPSA, the tail by backpropagation.

    Example::

        elastic = ElasticZO(model, "fc3", lr=2e-3, eps=1e-2, clip=0.3)
        for x, y in batches:
            elastic.step(lambda: cross_entropy(model(x), y))

    No graph is kept of the zeroth-order part: its parameters need no gradient while the loss is
    computed, so autograd starts at the tail. With an empty tail this is MeZO (Full ZO); with
    everything in the tail one forward pass is made, and it is plain SGD (Full BP).
    """

    def __init__(
        self,
        model: torch.nn.Module,
        partition: str | int,
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        activations: Activations = "plus",
        seed: int = 0,
        restore: Restore = "rounded",
        chunk: int | None = None,
        noise: Noise | None = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            model: the network, its parameters registered in the order of its layers.
            partition: name of the first layer of the tail, or the number C of direct children
                before it (see ``split_at``).
            lr: learning rate of both parts.
            eps: scale of the perturbation.
            clip: g_clip, the largest magnitude of the projected gradient.
            activations: which of the two passes the tail's backward pass uses (the paper does not
                say).
            seed: seed of the sequence of perturbations.
            restore: how the weights before the partition point come back (see ``MeZO``).
            chunk: elements of noise drawn at a time (see ``perturb_``).
            noise: where perturbations come from (see ``MeZO``).
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: a setting is out of range, the partition names no layer, or nothing in the
                model needs a gradient.
        """
        require_choice("activations", activations, get_args(Activations))
        self.activations = activations
        super().__init__(
            *split_at(model, partition),
            lr=lr,
            eps=eps,
            clip=clip,
            perturbations=1,
            seed=seed,
            restore=restore,
            chunk=chunk,
            noise=noise,
            timed=timed,
        )

    def step(self, closure: Closure) -> float:  # type: ignore[override]
        """Do one step of Algorithm 1 and return the mean of the losses.

        Raises:
            ReproError: a loss is not finite; like after any exception, the weights are restored.
            UsageError: the loss has no gradient for the tail.
        """
        lr = self._learning_rate()
        timer = PhaseTimer(enabled=self.timed)
        self._drop_gradients()
        try:
            with self._restoring():
                info = (
                    self._hybrid(closure, timer) if self.zo_params else self._plain(closure, timer)
                )
                with uninterrupted():  # both parts take the step, or none
                    if self.zo_params:
                        self._update(info.estimates, lr, timer)
                    self._descend_tail(lr, timer)
        finally:
            self._drop_gradients()
        self.last = info
        return info.loss

    def _hybrid(self, closure: Closure, timer: PhaseTimer) -> StepInfo:
        passes = [
            partial(self._pass, closure, weight, timer)
            for weight in ACTIVATION_WEIGHTS[self.activations]
        ]
        with _frozen(self.zo_params):
            estimate = self._estimate(passes, timer)
        loss = (estimate.loss_plus + estimate.loss_minus) / 2
        return StepInfo(loss, (estimate,), timer.seconds)

    def _descend_tail(self, lr: float, timer: PhaseTimer) -> None:
        with timer("update"), torch.no_grad():
            for parameter in self.bp_params:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-lr)
        torch.clear_autocast_cache()

    def _pass(self, closure: Closure, weight: float, timer: PhaseTimer) -> torch.Tensor | float:
        """Compute a loss, and add ``weight`` times its gradient to the tail's.

        The backward pass comes at once, so the tail's graph of one pass is gone before the next.
        """
        tail = bool(self.bp_params) and weight > 0
        with timer("forward"), torch.set_grad_enabled(tail):
            loss = closure()
        if not tail:
            return loss
        loss = _differentiable(loss)
        with timer("backward"):
            scale = None if weight == 1 else torch.full_like(loss, weight)
            loss.backward(scale)  # type: ignore[no-untyped-call]
        return loss.detach()

    def _drop_gradients(self) -> None:
        """Free the tail's gradients; ``zero_grad`` does so in ten times the time."""
        for parameter in self.bp_params:
            parameter.grad = None

    def _plain(self, closure: Closure, timer: PhaseTimer) -> StepInfo:
        with timer("forward"), torch.enable_grad():
            loss = _differentiable(closure())
        value = require_finite(loss.detach(), "loss")
        with timer("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        return StepInfo(value, (), timer.seconds)


def _differentiable(loss: torch.Tensor | float) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        msg = (
            "the loss has no gradient, so the tail cannot be trained by backpropagation: compute "
            "it from the tail's output without detaching, or use MeZO, which takes any loss"
        )
        raise UsageError(msg)
    return loss


@contextmanager
def _frozen(parameters: list[torch.Tensor]) -> Iterator[None]:
    """Let ``parameters`` need no gradient inside the block."""
    for parameter in parameters:
        parameter.requires_grad_(False)  # noqa: FBT003
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)  # noqa: FBT003
