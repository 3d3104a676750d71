"""MeZO: memory-efficient zeroth-order SGD (Malladi et al. 2023, Algorithm 1; n-SPSA)."""

import math
from collections.abc import Iterable

import torch

from repro.core.validation import require_positive, require_positive_int
from repro.methods.parameters import single_group, trainable
from repro.methods.step_info import PhaseTimer, StepInfo
from repro.methods.zeroth_order import Closure, ZerothOrder


class MeZO(ZerothOrder):
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
        self.perturbations = require_positive_int("perturbations n", perturbations)
        super().__init__(
            trainable(parameters),
            lr=lr,
            eps=eps,
            clip=clip,
            perturbations=perturbations,
            seed=seed,
            chunk=chunk,
            timed=timed,
        )

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

        def loss() -> torch.Tensor | float:
            with timer("forward"):
                return closure()

        estimates = [self._estimate(parameters, loss, loss, timer)]
        while len(estimates) < self.perturbations:
            self._move(parameters, estimates[-1].seed, self.eps, timer)
            estimates.append(self._estimate(parameters, loss, loss, timer))
        self._update(parameters, estimates, lr, timer)
        losses = [loss for e in estimates for loss in (e.loss_plus, e.loss_minus)]
        self.last = StepInfo(sum(losses) / len(losses), tuple(estimates), timer.seconds)
        return self.last.loss
