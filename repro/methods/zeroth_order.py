"""What the zeroth-order optimizers share: the step of n estimates, and what a resumed run needs."""

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
from repro.methods.log import StepLog, step_entries, update_rates
from repro.methods.noise import Noise, TorchNoise
from repro.methods.parameters import single_group
from repro.methods.step_info import DivergedError, Estimate, PhaseTimer, StepInfo, require_finite
from repro.methods.walk import OFFSETS, Restore, Walk

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""

_LARGEST_RATE = torch.finfo(torch.float32).max


class ZerothOrder(torch.optim.Optimizer):
    """An optimizer with a seeded sequence of perturbations and a log of its estimates."""

    def __init__(
        self,
        zo_params: Sequence[torch.Tensor],
        bp_params: Sequence[torch.Tensor],
        *,
        lr: float,
        eps: float,
        clip: float,
        perturbations: int,
        seed: int,
        restore: Restore,
        chunk: int | None,
        noise: Noise | None,
        timed: bool,
    ) -> None:
        """Check what all methods have; see their own constructors.

        Raises:
            UsageError: the learning rate, eps or the clip is out of range, another ``restore``, or
                one, or a ``noise``, that does not go with ``zo_params``.
        """
        noise = noise or TorchNoise(chunk)
        require_positive("learning rate lr", lr)
        self.eps = require_positive("perturbation scale eps", eps)
        self.clip = clip if clip == math.inf else require_positive("gradient clip g_clip", clip)
        self.timed = timed
        self.zo_params, self.bp_params = list(zo_params), list(bp_params)
        self.log = StepLog(eps, perturbations, chunk, restore, noise.name)
        self.last: StepInfo | None = None
        self._seeds = torch.Generator().manual_seed(seed)
        self._walk = Walk(self.zo_params, restore, eps, chunk, noise)
        super().__init__([*self.zo_params, *self.bp_params], {"lr": lr})
        self._walk.prepare()

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
            with uninterrupted():
                self._walk.restore()
            torch.clear_autocast_cache()
            raise
        finally:
            self._walk.release()

    def _estimate(self, passes: Sequence[Closure], timer: PhaseTimer) -> Estimate:
        """Return the next estimate; the weights are left where its last loss was taken.

        Args:
            passes: compute the losses at ``OFFSETS``, in their order.
            timer: takes the time of the perturbations.

        Raises:
            ReproError: a loss is not finite; names the step, the seed and the last g.
        """
        seed = int(torch.randint(0, 1 << 32, (), generator=self._seeds, dtype=torch.int64))
        losses: list[float] = []
        for offset, loss in zip(OFFSETS, passes, strict=True):
            with timer("perturb"), uninterrupted():
                self._walk.perturb(seed, offset)
            torch.clear_autocast_cache()  # it holds casts of the weights as they were
            losses.append(self._finite(loss(), {1: "l+", 0: "l", -1: "l-"}[offset], seed))
        first, last = OFFSETS
        gradient = (losses[0] - losses[1]) / ((first - last) * self.eps)
        clipped = max(-self.clip, min(self.clip, gradient))
        return Estimate(seed, losses[0], losses[1], clipped)

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

    def _update(self, estimates: Sequence[Estimate], lr: float, timer: PhaseTimer) -> None:
        """Restore the weights from the last estimate, update them by all, and log the step.

        Raises:
            DivergedError: lr g is beyond float32, so no update can be made.
        """
        rates = update_rates(step_entries(estimates, lr))
        for seed, rate in rates:
            self._representable(rate, seed)
        with timer("update"), uninterrupted():
            self._walk.update(rates)
            self.log.append(estimates, lr)
        torch.clear_autocast_cache()
