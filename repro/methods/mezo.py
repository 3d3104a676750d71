"""MeZO: memory-efficient zeroth-order SGD (Malladi et al. 2023, Algorithm 1; n-SPSA)."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from repro.core.validation import require_positive, require_positive_int
from repro.methods.log import StepLog, updates
from repro.methods.parameters import single_group, trainable
from repro.methods.perturbation import perturb_
from repro.methods.step_info import Estimate, PhaseTimer, StepInfo, require_finite

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""


class MeZO(torch.optim.Optimizer):
    """SGD on simultaneous-perturbation estimates, with the memory of a forward pass.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3)
        schedule = torch.optim.lr_scheduler.ExponentialLR(mezo, 0.8)
        for epoch in range(10):
            for x, y in batches:
                loss = mezo.step(lambda: cross_entropy(model(x), y))
            schedule.step()

    ``last`` tells about the last step, and ``log`` holds all of them in a few bytes each: replayed
    on the initial weights (``repro.methods.log.replay``) it gives the trained ones bit by bit.
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        perturbations: int = 1,
        seed: int = 0,
        chunk: int | None = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            parameters: tensors to train, all on one device; those that need no gradient are left
                alone, and one that is given twice is trained once.
            lr: learning rate.
            eps: scale of the perturbation.
            clip: largest magnitude of the projected gradient (ElasticZO's g_clip).
            perturbations: n of n-SPSA, estimates averaged in each step.
            seed: seed of the sequence of perturbations.
            chunk: elements of noise drawn at a time (see ``perturb_``).
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: a setting is out of range, or there is nothing to train.
        """
        self.eps = require_positive("perturbation scale eps", eps)
        self.clip = require_clip(clip)
        self.perturbations = require_positive_int("perturbations n", perturbations)
        self.chunk = chunk
        self.timed = timed
        self.log = StepLog(eps=eps, perturbations=perturbations, chunk=chunk)
        self.last: StepInfo | None = None
        self._seeds = torch.Generator().manual_seed(seed)
        super().__init__(trainable(parameters), {"lr": require_positive("learning rate lr", lr)})

    @torch.no_grad()
    def step(self, closure: Closure) -> float:  # type: ignore[override]
        """Estimate the gradient n times at the current weights and descend along the mean.

        With n = 1 the update is merged into the restore: one pass over the weights fewer.

        Returns:
            The mean of the losses.

        Raises:
            ReproError: a loss is not finite; the weights are restored first.
        """
        group = single_group(self)
        parameters, lr = group["params"], require_positive("learning rate lr", group["lr"])
        timer = PhaseTimer(enabled=self.timed)
        walk = Walk(parameters, self.eps, self.clip, self.chunk, timer)

        def loss() -> torch.Tensor | float:
            with timer("forward"):
                return closure()

        estimates = [walk.estimate(draw_seed(self._seeds), loss, loss)]
        while len(estimates) < self.perturbations:
            walk.move(estimates[-1].seed, self.eps)
            estimates.append(walk.estimate(draw_seed(self._seeds), loss, loss))
        entries = self.log.append(estimates, lr)
        with timer("update"):
            for seed, scale in updates(entries, self.eps):
                perturb_(parameters, seed, scale, self.chunk)
        losses = [loss for e in estimates for loss in (e.loss_plus, e.loss_minus)]
        self.last = StepInfo(sum(losses) / len(losses), tuple(estimates), timer.seconds)
        return self.last.loss

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


class Walk:
    """The walk over the weights that an estimate takes: theta + eps z, then theta - eps z."""

    def __init__(
        self,
        parameters: list[torch.Tensor],
        eps: float,
        clip: float,
        chunk: int | None,
        timer: PhaseTimer,
    ) -> None:
        self.parameters, self.eps, self.clip = parameters, eps, clip
        self.chunk, self.timer = chunk, timer

    def estimate(self, seed: int, plus: Closure, minus: Closure) -> Estimate:
        """Return the estimate; the weights are left at theta - eps z.

        Args:
            seed: seed of z.
            plus: loss at theta + eps z.
            minus: loss at theta - eps z.

        Raises:
            ReproError: a loss is not finite; like after any exception, the weights are restored.
        """
        offset = 0.0  # how many eps z the weights are away from theta
        try:
            self.move(seed, self.eps)
            offset = 1.0
            loss_plus = require_finite(plus(), f"l+ with perturbation seed {seed}")
            self.move(seed, -2 * self.eps)
            offset = -1.0
            loss_minus = require_finite(minus(), f"l- with perturbation seed {seed}")
        except BaseException:
            self.move(seed, -offset * self.eps)
            raise
        gradient = (loss_plus - loss_minus) / (2 * self.eps)
        return Estimate(seed, loss_plus, loss_minus, max(-self.clip, min(self.clip, gradient)))

    def move(self, seed: int, scale: float) -> None:
        """Add ``scale`` times the noise of ``seed`` to the weights."""
        with self.timer("perturb"):
            perturb_(self.parameters, seed, scale, self.chunk)


def draw_seed(generator: torch.Generator) -> int:
    """Return the next seed of a sequence of perturbations, below 2**32."""
    return int(torch.randint(0, 1 << 32, (), generator=generator, dtype=torch.int64))


def require_clip(clip: float) -> float:
    """Return ``clip`` if it is above 0, or infinite for none."""
    return clip if clip == math.inf else require_positive("gradient clip g_clip", clip)
