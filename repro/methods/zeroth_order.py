"""What the zeroth-order optimizers share: the walk of an estimate, and what a resumed run needs."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from repro.core.errors import UsageError
from repro.core.validation import require_not_negative, require_positive
from repro.methods.interrupts import uninterrupted
from repro.methods.log import StepLog, step_entries, updates
from repro.methods.noise import AnyNoise, TorchNoise
from repro.methods.parameters import single_group
from repro.methods.step_info import DivergedError, Estimate, PhaseTimer, StepInfo, require_finite
from repro.methods.walk import Restore, make_walk

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""

_LARGEST_RATE = torch.finfo(torch.float32).max


class ZerothOrder(torch.optim.Optimizer):
    """An optimizer with a seeded sequence of perturbations and a log of its estimates."""

    def __init__(
        self,
        head: Sequence[torch.Tensor],
        tail: Sequence[torch.Tensor],
        *,
        lr: float,
        eps: float,
        clip: float,
        perturbations: int,
        seed: int,
        restore: Restore,
        chunk: int | None,
        noise: AnyNoise | None,
        timed: bool,
    ) -> None:
        """Check what all methods have; see their own constructors.

        Raises:
            UsageError: the learning rate, eps or the clip is out of range, another ``restore``, or
                one, or a ``noise``, that does not go with ``head``.
        """
        noise = noise or TorchNoise(chunk)
        require_positive("learning rate lr", lr)
        self.eps = require_positive("perturbation scale eps", eps)
        self.clip = clip if clip == math.inf else require_positive("gradient clip g_clip", clip)
        self.timed = timed
        self.head, self.tail = list(head), list(tail)
        self.log = StepLog(eps, perturbations, chunk, restore, noise.name)
        self.last: StepInfo | None = None
        self._seeds = torch.Generator().manual_seed(seed)
        self._walk = make_walk(restore, eps, chunk, noise)
        self._place = (0, 0)  # seed and offset: the head is at theta + offset eps z(seed)
        super().__init__([*self.head, *self.tail], {"lr": lr})
        self._walk.settle(self.head)

    @abstractmethod
    def step(self, closure: Closure) -> float:  # type: ignore[override]
        """Do one step and return the mean of its losses."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the weights."""
        own = {
            "seeds": self._seeds.get_state(),
            "log": torch.from_numpy(np.array(self.log.data, np.uint8)),
            "settings": self.log.settings,
        }
        return {**super().state_dict(), **own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned.

        Raises:
            UsageError: it is of a run with other settings, which one log cannot hold.
        """
        state = dict(state_dict)
        if state["settings"] != self.log.settings:
            msg = f"the state of a run with {state['settings']} does not fit {self.log.settings}"
            raise UsageError(msg)
        del state["settings"]
        self._seeds.set_state(state.pop("seeds").cpu())  # loaders move all tensors to the device
        self.log.data = bytearray(state.pop("log").cpu().numpy())
        super().load_state_dict(state)

    def _learning_rate(self) -> float:
        """Return the learning rate of this step; a schedule may start or end at 0.

        Raises:
            UsageError: it is negative or not finite, or there are several.
        """
        return require_not_negative("learning rate lr", single_group(self)["lr"])

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Bring the weights back to theta if the block fails; free what its passes share."""
        try:
            yield
        except BaseException:
            seed, offset = self._place
            if offset:
                self._move(seed, 0, PhaseTimer(enabled=False))
            raise
        finally:
            self._walk.rest()

    def _estimate(self, plus: Closure, minus: Closure, timer: PhaseTimer) -> Estimate:
        """Return the next estimate; the weights are left at theta - eps z.

        Args:
            plus: loss at theta + eps z.
            minus: loss at theta - eps z.
            timer: takes the time of the perturbations.

        Raises:
            ReproError: a loss is not finite; names the step, the seed and the last g.
        """
        seed = int(torch.randint(0, 1 << 32, (), generator=self._seeds, dtype=torch.int64))
        self._move(seed, 1, timer)
        loss_plus = self._finite(plus(), "l+", seed)
        self._move(seed, -1, timer)
        loss_minus = self._finite(minus(), "l-", seed)
        gradient = (loss_plus - loss_minus) / (2 * self.eps)
        return Estimate(seed, loss_plus, loss_minus, max(-self.clip, min(self.clip, gradient)))

    def _finite(self, loss: torch.Tensor | float, name: str, seed: int) -> float:
        which = f"step {self.log.steps + 1}: {name} with perturbation seed {seed}"
        last = self.log.last
        return require_finite(loss, which, f" after g = {last.gradient:.6g}" if last else "")

    def _representable(self, rate: float, seed: int) -> None:
        if abs(rate) > _LARGEST_RATE:
            msg = (
                f"step {self.log.steps + 1}: learning rate times g = {rate:.6g} with perturbation "
                f"seed {seed}, float32 ends at {_LARGEST_RATE:.6g}: lower the learning rate or the "
                "gradient clip"
            )
            raise DivergedError(msg)

    def _move(self, seed: int, offset: int, timer: PhaseTimer) -> None:
        """Take the head from where it is to theta + ``offset`` eps z(``seed``)."""
        with timer("perturb"), uninterrupted():
            self._walk.move(self.head, seed, self._place[1], offset)
            self._place = (seed, offset)
        torch.clear_autocast_cache()  # it holds casts of the weights as they were

    def _update(self, estimates: Sequence[Estimate], lr: float, timer: PhaseTimer) -> None:
        """Restore the weights from the last estimate, update them by all, and log the step.

        Raises:
            DivergedError: lr g is beyond float32, so no update can be made.
        """
        passes = updates(step_entries(estimates, lr))
        for seed, _, rate in passes:
            self._representable(rate, seed)
        with timer("update"), uninterrupted():
            for seed, offset, rate in passes:
                self._walk.descend(self.head, seed, offset, rate)
            self._place = (0, 0)
            self.log.append(estimates, lr)
        torch.clear_autocast_cache()
