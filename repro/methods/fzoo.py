"""FZOO: N one-sided estimates along random signs, with a step scaled by the losses' spread."""

import math
from typing import TYPE_CHECKING

from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.parameters import Parameters
from repro.methods.perturbed_weights import Restore
from repro.methods.rules import by_spread

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class FZOO(MeZO):
    """Fast zeroth-order optimization (arXiv 2506.09034): N + 1 forward passes a step.

    Example::

        fzoo = FZOO(model.parameters(), lr=1e-4, eps=1e-3, perturbations=8)

    The losses are l_0 at theta and l_i at theta + eps u_i, where the u_i are random signs. The step
    is lr g / sigma with g = sum of (l_i - l_0) u_i / (eps N) and sigma the standard deviation of
    l_1 to l_N. As sigma is about eps times the norm of the gradient, lr / eps is the length of the
    step in the direction of the gradient, for any scale of the loss.

    The paper's text was not available; the rule follows published descriptions. By these, the paper
    evaluates the N directions in one batched pass on a GPU. Here they run one after another, in the
    memory of one forward pass.
    """

    draws_signs = True

    def __init__(
        self,
        parameters: Parameters,
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        perturbations: int = 8,
        weight_decay: float = 0.0,
        seed: int = 0,
        restore: Restore | None = None,
        chunk: int | None = None,
        noise: Noise | None = None,
        group: "ProcessGroup | None" = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            parameters: see ``MeZO``.
            lr: learning rate; see the class for its scale.
            eps: scale of the perturbation.
            clip: largest magnitude of a projected gradient, before it is divided by sigma.
            perturbations: N, the directions of a step.
            weight_decay: see ``MeZO``.
            seed: seed of the sequence of perturbations.
            restore: see ``MeZO``.
            chunk: see ``MeZO``.
            noise: random signs by default.
            group: see ``MeZO``.
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: as ``MeZO``, or ``perturbations`` is below 2.
        """
        super().__init__(
            parameters,
            lr=lr,
            eps=eps,
            clip=clip,
            perturbations=perturbations,
            weight_decay=weight_decay,
            seed=seed,
            restore=restore,
            chunk=chunk,
            noise=noise,
            estimator="one-sided",
            rule=by_spread,
            group=group,
            timed=timed,
        )
