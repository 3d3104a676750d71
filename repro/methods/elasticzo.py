"""ElasticZO: zeroth-order for the first layers, backpropagation for the last (arXiv 2501.04287)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import torch

from repro.core.errors import UsageError
from repro.core.names import Activations
from repro.core.signals import uninterrupted
from repro.core.validation import require_choice
from repro.methods.noise import Noise
from repro.methods.parameters import split_at, tied_names, trainable, uncompiled
from repro.methods.perturbed_weights import Restore
from repro.methods.step_info import (
    DivergedError,
    PhaseTimer,
    StepInfo,
    loss_value,
    require_finite,
    require_number,
)
from repro.methods.watch import FirstStep, SharedRandomness
from repro.methods.zeroth_order import Closure, ZerothOrder, micro_batches

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

ACTIVATION_WEIGHTS: dict[Activations, tuple[float, float]] = {
    "plus": (1.0, 0.0),
    "minus": (0.0, 1.0),
    "mean": (0.5, 0.5),
}
"""The share of each pass of an estimate in the gradient by backpropagation."""


class ElasticZO(ZerothOrder):
    """Algorithm 1: SPSA before the partition point, backpropagation after it, in the tail.

    Example::

        elastic = ElasticZO(model, "fc3", lr=2e-3, eps=1e-2, clip=0.3)
        for x, y in batches:
            elastic.step(lambda: cross_entropy(model(x), y))

    Autograd starts at the tail, since the zeroth-order parameters need no gradient while the loss
    is computed. With an empty tail this is MeZO (Full ZO). With C = 0 a step makes one forward pass
    and is plain SGD (Full BP).

    Layers are ordered by registration. The first step compares this order with the execution order,
    and refuses to train if a layer of the tail runs before an earlier layer. With ``trace`` the
    order is taken from a forward pass instead.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        partition: str | int,
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        activations: Activations = "plus",
        weight_decay: float = 0.0,
        trace: Callable[[], object] | None = None,
        seed: int = 0,
        restore: Restore | None = None,
        chunk: int | None = None,
        noise: Noise | None = None,
        group: "ProcessGroup | None" = None,
        timed: bool = False,
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            model: the network.
            partition: name of the first layer of the tail, or the number C of direct children
                before it (see ``split_at``).
            lr: learning rate of both parts.
            eps: scale of the perturbation.
            clip: g_clip, the largest magnitude of the projected gradient.
            activations: which of the two passes the tail's backward pass uses (not given in the
                paper).
            weight_decay: weight decay of both parts (see ``MeZO``).
            trace: runs the model once, as in ``lambda: model(x)``, to find the order in which its
                layers run. In training mode this changes the statistics of batch norm.
            seed: seed of the sequence of perturbations.
            restore: how the weights before the partition point are restored (see ``MeZO``). The
                tail is updated in the weights' own format, where bfloat16 and float16 lose updates
                below half the spacing of a weight.
            chunk: elements of noise drawn at a time (see ``perturb_``).
            noise: source of the perturbations (see ``MeZO``).
            group: processes that train together (see ``MeZO``); they also send the tail's
                gradients.
            timed: whether ``last.seconds`` is filled.

        Raises:
            UsageError: a setting is out of range, the partition names no layer, no parameter needs
                a gradient, or no parameter is zeroth-order although C is not 0.
        """
        require_choice("activations", activations, get_args(Activations))
        self.activations, self.partition = activations, partition
        model = uncompiled(model)
        zo_params, bp_params = split_at(
            model, partition, None if trace is None else used(model, trace)
        )
        names: dict[torch.Tensor, str] = {p: name for name, p in model.named_parameters()}
        self._names = [names[p] for p in (*zo_params, *bp_params)]
        self._tied = tied_names(model)
        super().__init__(
            [{"params": zo_params}],
            bp_params,
            lr=lr,
            eps=eps,
            clip=clip,
            perturbations=1,
            weight_decay=weight_decay,
            seed=seed,
            restore=restore,
            chunk=chunk,
            noise=noise,
            group=group,
            timed=timed,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments with their defaults filled in, and the tied weights."""
        own = {"partition": self.partition, "activations": self.activations, "tied": self._tied}
        return {**super().settings, **own}

    @property
    def _own_settings(self) -> dict[str, Any]:
        return super()._own_settings | {"activations": self.activations}

    def step(self, closure: Closure | Sequence[Closure]) -> float:  # type: ignore[override]
        """Do one step of Algorithm 1 and return the mean of the losses.

        Args:
            closure: computes the loss of the batch; or several closures, one for each micro-batch
                of equal size (see ``MeZO.step``).

        Raises:
            ReproError: as ``MeZO.step``.
            UsageError: as ``MeZO.step``; the loss has no gradient for the tail, or a layer of the
                tail runs before a zeroth-order layer.
        """
        closures = micro_batches(closure)
        lrs = self._learning_rates()
        timer = PhaseTimer(enabled=self.timed)
        with self._restoring():
            self._drop_gradients()
            try:
                if self.zo_params:
                    passes = [
                        partial(self._pass, closures, weight, timer)
                        for weight in ACTIVATION_WEIGHTS[self.activations]
                    ]
                    with _frozen(self.zo_params):
                        estimate = self._estimate(passes, timer)
                    loss = (estimate.loss_plus + estimate.loss_minus) / 2
                    info = StepInfo(loss, (estimate,), timer.seconds)
                else:
                    loss = self._pass(closures, 1, timer)
                    if self._processes is not None:
                        # without a perturbation there is no seed to compare, so all send 0
                        (loss,) = self._processes.mean(0, [loss])
                    info = StepInfo(require_finite(loss, "loss"), (), timer.seconds)
                self._end_first_step()
                if self._processes is not None:
                    self._processes.add_gradients(self.bp_params)
                self._require_finite_gradients()
                with uninterrupted():  # update both parts or neither
                    if self.zo_params:
                        self._update(info.estimates, lrs, timer)
                    self._descend_tail(lrs[0], timer)
            finally:
                self._drop_gradients()
        self.last = info
        return info.loss

    def _check_order(self, order: Sequence[int]) -> None:
        """Refuse a tail that runs before a layer of the zeroth-order part."""
        place = {key: index for index, key in enumerate(order)}
        trained = zip(self._names, (*self.zo_params, *self.bp_params), strict=True)
        used = [(place[id(p)], name) if id(p) in place else None for name, p in trained]
        rest, tail = used[: len(self.zo_params)], used[len(self.zo_params) :]
        last, first = max(filter(None, rest), default=None), min(filter(None, tail), default=None)
        if last and first and first < last:
            raise UsageError(
                f"partition {self.partition!r}: {first[1]} is backpropagated but runs before "
                f"{last[1]}, which is not: layers are registered in another order than they run "
                "in; give trace=lambda: model(x), which takes the order from a forward pass"
            )

    def _require_finite_gradients(self) -> None:
        """Refuse an update that would ruin the tail; a finite loss may have such a gradient.

        Raises:
            DivergedError: a gradient is not finite.
        """
        named = zip(self._names[len(self.zo_params) :], self.bp_params, strict=True)
        found = {name: p.grad for name, p in named if p.grad is not None}
        # a sum is an order of magnitude faster than a look at each number, but may overflow
        if not found or math.isfinite(sum(float(grad.sum()) for grad in found.values())):
            return
        for name, grad in found.items():
            if not bool(grad.isfinite().all()):
                raise DivergedError(
                    f"step {self.log.steps + 1}: the gradient of {name} is not finite, although "
                    "the loss is: a function in the loss may have no derivative there, such as a "
                    "square root at 0; no parameter was updated"
                )

    def _descend_tail(self, lr: float, timer: PhaseTimer) -> None:
        decay = lr * self.param_groups[0]["weight_decay"]
        with timer("update"), torch.no_grad():
            for parameter in self.bp_params:
                if parameter.grad is None:  # unused, or frozen since; as torch's optimizers do
                    continue
                if decay:
                    parameter.mul_(1 - decay)
                parameter.add_(parameter.grad, alpha=-lr)
        torch.clear_autocast_cache()

    def _pass(self, closures: Sequence[Closure], weight: float, timer: PhaseTimer) -> float:
        """Compute the mean loss, and add ``weight`` times its gradient to the tail's.

        The backward pass of each loss runs immediately, so its graph is freed before the next one.
        """
        self._randomness.rewind()
        tail = bool(self.bp_params) and weight > 0
        if tail and torch.is_inference_mode_enabled():
            raise UsageError(
                "step() under torch.inference_mode(), in which no gradient exists: call it outside"
            )
        share = weight / len(closures) / (self._processes.size if self._processes else 1)
        losses = []
        for closure in closures:
            with timer("forward"), torch.set_grad_enabled(tail):
                loss = self._call(closure)
            if tail:
                require_number(loss)
                if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
                    raise UsageError(
                        "the loss has no gradient, so the backpropagated layers cannot be trained: "
                        "compute it from their output without detaching, or use MeZO, which takes "
                        "any loss"
                    )
                with timer("backward"):
                    scale = None if share == 1 else torch.full_like(loss, share)
                    loss.backward(scale)  # type: ignore[no-untyped-call]
                loss = loss.detach()
            losses.append(loss_value(loss))
        return self._mean(losses)

    def _drop_gradients(self) -> None:
        """Free the tail's gradients; ``zero_grad`` takes ten times as long."""
        for parameter in self.bp_params:
            parameter.grad = None


def used(model: torch.nn.Module, run: Callable[[], object]) -> list[int]:
    """Return the ``id`` of each parameter that ``run`` uses, frozen or not, in order of first use.

    The state of the global random generators is restored afterwards.
    """
    device = trainable(model.parameters())[0].device
    watch = FirstStep(model.parameters(), device)
    randomness = SharedRandomness(device)
    randomness.rewind()
    with torch.no_grad(), watch:
        run()
    randomness.rewind()
    return list(watch.order)


@contextmanager
def _frozen(parameters: list[torch.Tensor]) -> Iterator[None]:
    """Switch off the gradients of ``parameters`` inside the block."""
    before = [parameter.requires_grad for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_(False)  # noqa: FBT003
    try:
        yield
    finally:
        for parameter, needed in zip(parameters, before, strict=True):
            parameter.requires_grad_(needed)
