"""MEAZO: MeZO with a step size that adapts to the size of recent projected gradients."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro.core.errors import UsageError
from repro.core.validation import require_positive
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.parameters import Parameters
from repro.methods.perturbed_weights import Restore
from repro.methods.rules import Estimator
from repro.methods.step_info import GradientEstimate

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class MEAZO(MeZO):
    """Adaptive zeroth-order SGD with one number of state (arXiv 2605.03869).

    Example::

        meazo = MEAZO(model.parameters(), lr=1e-4, eps=1e-3)

    Let g_t be the mean of the step's n projected gradients. The second moment is
    v_t = beta v_(t-1) + (1 - beta) g_t^2, from v_0 = 0, and without bias it is
    w_t = v_t / (1 - beta^t). The step is MeZO's with the learning rate lr / (sqrt(w_t) + floor).

    So the scale of the loss does not matter: lr is the rate at which the weights move along z if g
    has its recent size. Adam adapts the rate of each weight and stores two numbers for each; MEAZO
    adapts a single rate for all weights.

    The paper's text was not available. The rule follows published descriptions of it. They leave
    the defaults of ``beta`` and ``floor`` open, and number the steps of the bias correction in
    another way than Adam does; here w_1 = g_1^2, as in Adam.
    """

    def __init__(
        self,
        parameters: Parameters,
        *,
        lr: float,
        eps: float,
        beta: float = 0.99,
        floor: float = 1e-8,
        clip: float = math.inf,
        perturbations: int = 1,
        weight_decay: float = 0.0,
        seed: int = 0,
        restore: Restore | None = None,
        chunk: int | None = None,
        noise: Noise | None = None,
        estimator: Estimator = "two-sided",
        group: "ProcessGroup | None" = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            parameters: see ``MeZO``.
            lr: learning rate; see the class for its scale.
            eps: scale of the perturbation.
            beta: decay rate of the second moment, at least 0 and below 1.
            floor: smallest denominator of the learning rate, above 0.
            clip: see ``MeZO``; the second moment is computed after clipping.
            perturbations: n, the estimates of a step.
            weight_decay: see ``MeZO``; it uses lr itself.
            seed: seed of the sequence of perturbations.
            restore: see ``MeZO``.
            chunk: see ``MeZO``.
            noise: see ``MeZO``.
            estimator: see ``MeZO``.
            group: see ``MeZO``.
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: as ``MeZO``, or ``beta`` or ``floor`` is out of range.
        """
        if not 0 <= beta < 1:
            raise UsageError(f"beta = {beta!r}: must be at least 0 and below 1")
        self.beta, self.floor = beta, require_positive("floor", floor)
        self.second_moment = 0.0
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
            estimator=estimator,
            rule=self._by_second_moment,
            group=group,
            timed=timed,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments with their defaults filled in."""
        return super().settings | {"beta": self.beta, "floor": self.floor}

    @property
    def _own_settings(self) -> dict[str, Any]:
        return super()._own_settings | {"beta": self.beta, "floor": self.floor}

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, without the weights."""
        return {**super().state_dict(), "second_moment": self.second_moment}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``.

        Raises:
            UsageError: the state is of another method or of a run with other settings.
        """
        state = dict(state_dict)
        if "second_moment" not in state:
            raise UsageError(
                "the state has no second_moment, so it is not MEAZO's; load it into its own method"
            )
        moment = float(state.pop("second_moment"))
        super().load_state_dict(state)
        self.second_moment = moment

    def _remember(self, estimates: Sequence[GradientEstimate]) -> None:
        self.second_moment = self._next_moment(estimates)

    def _by_second_moment(self, estimates: Sequence[GradientEstimate]) -> list[float]:
        # the rule runs before its step is logged, hence + 1
        unbiased = self._next_moment(estimates) / (1 - self.beta ** (self.log.steps + 1))
        return [e.projected_gradient / (math.sqrt(unbiased) + self.floor) for e in estimates]

    def _next_moment(self, estimates: Sequence[GradientEstimate]) -> float:
        g = math.fsum(estimate.projected_gradient for estimate in estimates) / len(estimates)
        return self.beta * self.second_moment + (1 - self.beta) * g * g
