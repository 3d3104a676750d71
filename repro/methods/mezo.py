"""MeZO: memory-efficient zeroth-order SGD (Malladi et al. 2023, Algorithm 1; n-SPSA)."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from repro.core.errors import ReproError, UsageError
from repro.core.validation import require_positive, require_positive_int
from repro.methods.perturbation import perturb_

Closure = Callable[[], "torch.Tensor | float"]
"""Computes the loss of the current batch, without gradients; any function will do."""


@dataclass(frozen=True)
class Estimate:
    """One SPSA estimate: the two losses and the projected gradient g = (l+ - l-) / 2 eps."""

    seed: int
    loss_plus: float
    loss_minus: float
    projected_gradient: float


class MeZO:
    """SGD on simultaneous-perturbation estimates, with the memory of a forward pass.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3)
        for x, y in batches:
            mezo.step(lambda: cross_entropy(model(x), y))
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        *,
        lr: float,
        eps: float,
        seed: int = 0,
        perturbations: int = 1,
        chunk: int | None = None,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            parameters: tensors to train; those that need no gradient are left alone.
            lr: learning rate.
            eps: scale of the perturbation.
            seed: seed of the sequence of perturbations.
            perturbations: n of n-SPSA, estimates averaged in each step.
            chunk: elements of noise drawn at a time (see ``perturb_``).

        Raises:
            UsageError: a setting is out of range, or there is nothing to train.
        """
        self.parameters = [p for p in dict.fromkeys(parameters) if p.requires_grad]
        if not self.parameters:
            msg = "no parameter to train: at least one must have requires_grad=True"
            raise UsageError(msg)
        self.lr = require_positive("learning rate lr", lr)
        self.eps = require_positive("perturbation scale eps", eps)
        self.perturbations = require_positive_int("perturbations n", perturbations)
        self.chunk = chunk
        self._seeds = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def step(self, closure: Closure) -> list[Estimate]:
        """Estimate the gradient n times at the current weights and descend along the mean.

        Returns:
            The n estimates. With n = 1 the update is merged into the restore: one pass over the
            weights fewer.

        Raises:
            ReproError: a loss is not finite; the weights are restored first.
        """
        estimates = [self._estimate(closure) for _ in range(self.perturbations - 1)]
        last = self._estimate(closure, restore=False)
        self.perturb(last.seed, self.eps - self.lr * last.projected_gradient / self.perturbations)
        for estimate in estimates:
            self.perturb(estimate.seed, -self.lr * estimate.projected_gradient / self.perturbations)
        return [*estimates, last]

    def perturb(self, seed: int, scale: float) -> None:
        """Add ``scale`` times the noise of ``seed`` to the weights, in place."""
        perturb_(self.parameters, seed, scale, self.chunk)

    def draw_seed(self) -> int:
        """Return the next seed of the sequence of perturbations."""
        return int(torch.randint(0, 1 << 32, (), generator=self._seeds, dtype=torch.int64))

    def _estimate(self, closure: Closure, *, restore: bool = True) -> Estimate:
        """Return one estimate; the weights are left at theta, or at theta - eps z if asked to."""
        seed = self.draw_seed()
        offset = 0.0  # how many eps z the weights are away from theta
        try:
            self.perturb(seed, self.eps)
            offset = 1.0
            loss_plus = _finite(closure(), "l+", seed)
            self.perturb(seed, -2 * self.eps)
            offset = -1.0
            loss_minus = _finite(closure(), "l-", seed)
        except BaseException:
            self.perturb(seed, -offset * self.eps)
            raise
        if restore:
            self.perturb(seed, self.eps)
        gradient = (loss_plus - loss_minus) / (2 * self.eps)
        return Estimate(seed, loss_plus, loss_minus, gradient)


def _finite(loss: "torch.Tensor | float", name: str, seed: int) -> float:
    value = float(loss)
    if not math.isfinite(value):
        msg = f"{name} = {value} with perturbation seed {seed}: lower the learning rate or eps"
        raise ReproError(msg)
    return value
