"""MeZO: memory-efficient zeroth-order SGD (Malladi et al. 2023, Algorithm 1; n-SPSA)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from repro.core.errors import UsageError
from repro.core.validation import require_positive_int
from repro.methods.noise import Noise
from repro.methods.parameters import Parameters, parameter_groups
from repro.methods.perturbed_weights import Restore
from repro.methods.rules import OFFSETS, Estimator, Rule, by_spread, sgd
from repro.methods.step_info import PhaseTimer, StepInfo, loss_value
from repro.methods.zeroth_order import Closure, ZerothOrder, micro_batches

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class MeZO(ZerothOrder):
    """SGD on simultaneous-perturbation estimates, with the memory of a forward pass.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3)
        schedule = torch.optim.lr_scheduler.ExponentialLR(mezo, 0.8)
        for epoch in range(10):
            for x, y in batches:
                loss = mezo.step(lambda: cross_entropy(model(x), y))
            schedule.step()

    ``last`` reports on the last step, and ``log`` holds all steps in a few bytes each. Replayed on
    the initial weights (``repro.methods.log.replay``), the log gives the trained weights bit by
    bit.

    A method combines a direction z (``noise``), an ``estimator`` of the derivative along it and an
    update ``rule``. MeZO uses Gaussian noise, SPSA and gradient descent.

    Adding and subtracting eps z rounds the weights, so they drift even without updates. With
    weights of rms 0.02, the relative drift after 1000 estimates at eps = 1e-3 is 2e-6 in float32,
    1.5 % in float16 and 13 % in bfloat16. With ``restore="exact"``, the default for float16 and
    bfloat16, it is zero. The weights are rounded once, to a lattice from which perturbed weights
    are traced back (``repro.methods.lattice``); this changes them as much as rounding to the number
    format, by 0.2 % in bfloat16. Updates are rounded to the lattice at random, so that updates
    below its spacing count by their mean. Exact restores need no memory beyond a few chunks for
    each thread. With PyTorch's operators on a CPU, passes over the weights take several times as
    long; with the engine's ``TorchNoiseOnEngine`` (``repro.ondevice.noise``), which gives the same
    bits, they take little longer.

    After an exception in the closure the weights from before the step are restored: bit by bit if
    exact, else within three roundings for each estimate begun. After a failed step, the log of an
    exact run is still valid; otherwise it lacks the rounding errors of that step.

    Two rounding effects remain. The losses are taken at the rounded theta +- eps z, so in half
    precision weights much larger than eps hardly move; and random rounding adds noise.
    """

    def __init__(
        self,
        parameters: Parameters,
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        perturbations: int = 1,
        weight_decay: float = 0.0,
        seed: int = 0,
        restore: Restore | None = None,
        chunk: int | None = None,
        noise: Noise | None = None,
        estimator: Estimator = "two-sided",
        rule: Rule = sgd,
        group: "ProcessGroup | None" = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            parameters: the parameters to train, as for torch's optimizers: ``model.parameters()``,
                ``model.named_parameters()`` or groups with their own ``lr``, ``eps`` and
                ``weight_decay``; all on one device. Parameters that need no gradient are ignored,
                and a parameter given twice is trained once.
            lr: learning rate.
            eps: scale of the perturbation.
            clip: largest magnitude of the projected gradient (ElasticZO's g_clip).
            perturbations: n of n-SPSA, estimates averaged in each step.
            weight_decay: every step multiplies the weights by 1 - lr weight_decay, as AdamW does.
            seed: seed of the sequence of perturbations.
            restore: ``"rounded"`` or ``"exact"``, as described above.
            chunk: elements of noise drawn at a time, which decides PyTorch's noise and how exact
                passes of ``EngineNoise`` are seeded; other noise ignores it. If it is given without
                ``noise``, PyTorch's generator draws, also on a GPU.
            noise: source of the perturbations. By default, fused kernels draw Gaussian noise on a
                GPU (``repro.methods.philox``), and PyTorch's generator elsewhere and, with a
                warning, where the kernels cannot run. ``repro.ondevice.noise`` has a faster one for
                CPUs. The log names it.
            estimator: ``"two-sided"`` or ``"one-sided"`` (``repro.methods.rules``).
            rule: computes the factors of a step from its estimates (``repro.methods.rules``).
            group: processes of ``torch.distributed`` that train together, each on its own batches.
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: a setting is out of range, there is nothing to train, or ``noise`` does not
                support the parameters or has another ``chunk``.
        """
        perturbations = require_positive_int("perturbations n", perturbations)
        if rule is by_spread and perturbations == 1:
            raise UsageError(
                "perturbations n = 1: FZOO's rule needs at least 2 losses for their standard "
                "deviation"
            )
        super().__init__(
            parameter_groups(parameters),
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
            rule=rule,
            group=group,
            timed=timed,
        )

    @property
    def perturbations(self) -> int:
        """The estimates of a step, the same in all steps, as the log holds it."""
        return self.log.perturbations

    @torch.no_grad()
    def step(self, closure: Closure | Sequence[Closure]) -> float:  # type: ignore[override]
        """Estimate the gradient n times at the current weights and descend along the mean.

        With n = 1 the update is merged into the restore, which saves one pass over the weights.

        Args:
            closure: computes the loss of the batch. A step calls it 2 n times (n + 1 times if the
                estimator is one-sided) without gradients, so it must use the same batch each time
                and not call ``backward()``. It may be several closures, one for each
                micro-batch of equal size; their losses are averaged, with the memory of one.

        Returns:
            The mean of the losses; the loss at theta if the estimator is one-sided.

        Raises:
            ReproError: a loss is not finite, or an update exceeds float32; as after any exception,
                the weights are restored.
            UsageError: a setting or a weight's memory was changed since construction, lr times
                weight decay is 1 or more, there is no closure, or a closure returns no number or
                calls ``backward()``.
        """
        closures = micro_batches(closure)
        lrs = self._learning_rates()
        timer = PhaseTimer(enabled=self.timed)

        def mean_loss() -> float:
            self._randomness.rewind()
            with timer("forward"):
                # a list: a generator turns a closure's StopIteration into another error
                return self._mean([loss_value(self._call(loss)) for loss in closures])

        with self._restoring():
            passes = [mean_loss, mean_loss]
            if 0 in OFFSETS[self.estimator]:
                at_theta = mean_loss()
                passes[1] = lambda: at_theta
            estimates = [self._estimate(passes, timer) for _ in range(self.perturbations)]
            self._end_first_step()
            self._update(estimates, lrs, timer)
        losses = [loss for e in estimates for loss in (e.loss_plus, e.loss_minus)]
        if self.estimator == "one-sided":
            losses = [estimates[0].loss_minus]
        self.last = StepInfo(sum(losses) / len(losses), tuple(estimates), timer.seconds)
        return self.last.loss
