"""How losses make a step: at which weights they are taken, and the factor of each direction."""

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from repro.methods.step_info import GradientEstimate

Estimator = Literal["two-sided", "one-sided"]

OFFSETS: dict[Estimator, tuple[int, int]] = {"two-sided": (1, -1), "one-sided": (1, 0)}
"""Offsets from theta, in units of eps z, of an estimate's two losses, in the order of the passes.

Training, replay and the projected gradient g = (first loss - last loss) / ((first - last) eps) all
use them. ``two-sided`` is SPSA (MeZO, Malladi et al. 2023, definition 1), whose error has order eps
squared. ``one-sided`` (FZOO, arXiv 2506.09034) takes the loss at theta once a step, for any number
of directions, and its error has order eps.
"""

Rule = Callable[[Sequence[GradientEstimate]], list[float]]
"""Returns a factor for each estimate of a step; the step is along the mean of factor times z."""


def sgd(estimates: Sequence[GradientEstimate]) -> list[float]:
    """Return the projected gradients: stochastic gradient descent (MeZO, Algorithm 1)."""
    return [estimate.projected_gradient for estimate in estimates]


def sign(estimates: Sequence[GradientEstimate]) -> list[float]:
    """Return the signs of the projected gradients, so that all steps have one length.

    ZO-signSGD (Liu et al. 2019; for language models Zhang et al. 2024, arXiv 2402.11592) steps
    along the sign of each coordinate of the estimate g z. With random signs as z and one estimate a
    step this is sign(g) z, and every weight moves by lr. With other z the step is along z or -z.
    """
    return [float((g > 0) - (g < 0)) for g in sgd(estimates)]


def by_spread(estimates: Sequence[GradientEstimate]) -> list[float]:
    """Return the projected gradients over the standard deviation of the perturbed losses.

    FZOO (arXiv 2506.09034): theta <- theta - lr g / sigma, where sigma squared is the variance of
    the N losses at theta + eps z. The paper's text was not available, so the rule follows published
    descriptions of it, and the denominator N - 1 of the variance is our reading. Equal losses give
    no direction, so the step is 0.
    """
    spread = statistics.stdev(estimate.loss_plus for estimate in estimates)
    return [e.projected_gradient / spread if spread else 0.0 for e in estimates]
