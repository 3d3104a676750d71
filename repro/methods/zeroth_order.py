"""What the zeroth-order optimizers share: the walk of an estimate, and what a resumed run needs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro.core.validation import require_positive
from repro.methods.log import StepLog, updates
from repro.methods.perturbation import perturb_
from repro.methods.step_info import Estimate, PhaseTimer, StepInfo, require_finite

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""


class ZerothOrder(torch.optim.Optimizer):
    """An optimizer with a seeded sequence of perturbations and a log of its estimates."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        lr: float,
        eps: float,
        clip: float,
        perturbations: int,
        seed: int,
        chunk: int | None,
        timed: bool,
    ) -> None:
        """Check what all methods have; see their own constructors.

        Raises:
            UsageError: the learning rate, eps or the clip is out of range.
        """
        self.eps = require_positive("perturbation scale eps", eps)
        self.clip = clip if clip == math.inf else require_positive("gradient clip g_clip", clip)
        self.chunk = chunk
        self.timed = timed
        self.log = StepLog(eps=eps, perturbations=perturbations, chunk=chunk)
        self.last: StepInfo | None = None
        self._seeds = torch.Generator().manual_seed(seed)
        super().__init__(parameters, {"lr": require_positive("learning rate lr", lr)})

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the weights."""
        seeds = self._seeds.get_state()
        return {**super().state_dict(), "seeds": seeds, "log": bytes(self.log.data)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        state = dict(state_dict)
        self._seeds.set_state(state.pop("seeds"))
        self.log.data = bytearray(state.pop("log"))
        super().load_state_dict(state)

    def _estimate(
        self, parameters: list[torch.Tensor], plus: Closure, minus: Closure, timer: PhaseTimer
    ) -> Estimate:
        """Return the next estimate; the weights are left at theta - eps z.

        Args:
            parameters: the weights theta that are perturbed.
            plus: loss at theta + eps z.
            minus: loss at theta - eps z.
            timer: takes the time of the perturbations.

        Raises:
            ReproError: a loss is not finite; like after any exception, the weights are restored.
        """
        seed = int(torch.randint(0, 1 << 32, (), generator=self._seeds, dtype=torch.int64))
        offset = 0.0  # how many eps z the weights are away from theta
        try:
            self._move(parameters, seed, self.eps, timer)
            offset = 1.0
            loss_plus = require_finite(plus(), f"l+ with perturbation seed {seed}")
            self._move(parameters, seed, -2 * self.eps, timer)
            offset = -1.0
            loss_minus = require_finite(minus(), f"l- with perturbation seed {seed}")
        except BaseException:
            self._move(parameters, seed, -offset * self.eps, timer)
            raise
        gradient = (loss_plus - loss_minus) / (2 * self.eps)
        return Estimate(seed, loss_plus, loss_minus, max(-self.clip, min(self.clip, gradient)))

    def _move(
        self, parameters: list[torch.Tensor], seed: int, scale: float, timer: PhaseTimer
    ) -> None:
        """Add ``scale`` times the noise of ``seed`` to the weights."""
        with timer("perturb"):
            perturb_(parameters, seed, scale, self.chunk)

    def _update(
        self,
        parameters: list[torch.Tensor],
        estimates: list[Estimate],
        lr: float,
        timer: PhaseTimer,
    ) -> None:
        """Log the step; restore the weights from the last estimate and update them by all."""
        entries = self.log.append(estimates, lr)
        with timer("update"):
            for seed, scale in updates(entries, self.eps):
                perturb_(parameters, seed, scale, self.chunk)
