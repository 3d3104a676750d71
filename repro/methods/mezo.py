"""MeZO: memory-efficient zeroth-order SGD (Malladi et al. 2023, Algorithm 1; n-SPSA)."""

import math
from collections.abc import Iterable

import torch

from repro.core.validation import require_positive_int
from repro.methods.noise import Noise
from repro.methods.parameters import trainable
from repro.methods.step_info import PhaseTimer, StepInfo
from repro.methods.walk import Restore
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

    Adding and subtracting eps z is rounded, so the weights drift even where no update is made. Of
    weights of rms 0.02, 1000 estimates at eps = 1e-3 change this part: 2e-6 in float32, 1.5 % in
    float16, 13 % in bfloat16. With ``restore="exact"`` it is zero: the weights are rounded once, to
    a lattice from which perturbed weights are traced back (``repro.methods.lattice``; as large a
    change as rounding to the number format, of 0.2 % in bfloat16), and updates are rounded to it
    at random so that those below its spacing count by their mean. It takes no memory beyond a few
    chunks for each thread. Passes over the weights take several times as long on a CPU by PyTorch's
    operators, and little longer by the engine, whose ``TorchNoiseOnEngine`` comes to the same bits
    (``repro.ondevice.noise``).

    After an exception in the closure the weights are those from before the step: bit by bit if
    exact, else within three roundings for each estimate begun. The log of an exact run still holds
    after a step that failed; otherwise the rounding errors of that step are missing from it.

    What stays: the losses are those of the rounded theta +- eps z, in which weights much larger
    than eps hardly move in half precision, and random rounding is noise of its own.
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
        restore: Restore = "rounded",
        chunk: int | None = None,
        noise: Noise | None = None,
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
            restore: ``"rounded"`` or ``"exact"``, as above.
            chunk: elements of noise drawn at a time (see ``perturb_``).
            noise: where perturbations come from, PyTorch's generator unless told otherwise;
                ``repro.ondevice.noise`` has a faster one. The log names it.
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: a setting is out of range, there is nothing to train, or ``noise`` does not
                go with the parameters.
        """
        self.perturbations = require_positive_int("perturbations n", perturbations)
        super().__init__(
            trainable(parameters),
            [],
            lr=lr,
            eps=eps,
            clip=clip,
            perturbations=perturbations,
            seed=seed,
            restore=restore,
            chunk=chunk,
            noise=noise,
            timed=timed,
        )

    @torch.no_grad()
    def step(self, closure: Closure) -> float:  # type: ignore[override]
        """Estimate the gradient n times at the current weights and descend along the mean.

        With n = 1 the update is merged into the restore: one pass over the weights fewer.

        Returns:
            The mean of the losses.

        Raises:
            ReproError: a loss is not finite; like after any exception, the weights are restored.
        """
        lr = self._learning_rate()
        timer = PhaseTimer(enabled=self.timed)

        def loss() -> torch.Tensor | float:
            with timer("forward"):
                return closure()

        with self._restoring():
            estimates = [self._estimate((loss, loss), timer) for _ in range(self.perturbations)]
            self._update(estimates, lr, timer)
        losses = [loss for e in estimates for loss in (e.loss_plus, e.loss_minus)]
        self.last = StepInfo(sum(losses) / len(losses), tuple(estimates), timer.seconds)
        return self.last.loss
