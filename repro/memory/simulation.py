"""Count the memory of a real training step of the actual architecture, run on fake tensors.

The optimizers come from ``repro.methods``. No size depends on a value, so the few values that they
read, such as losses and seeds, are made up. Optimizer state exists from the beginning, as after a
first step. The result is the peak of *logical* bytes, without allocator rounding and the kernels'
own allocations.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.core.errors import ReproError
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.fake_models import build, partition_before, reason_of
from repro.memory.setting import Setting, TrainingMethod
from repro.memory.step import EPS, LR, last_position_loss
from repro.memory.storages import StorageTracker
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.mezo import MeZO
from repro.methods.noise import default_chunk
from repro.methods.torch_noise import TorchNoise, perturb_
from repro.models.training_mode import unpacked

AnyModel = TypeVar("AnyModel", bound=nn.Module)


class StepError(ReproError):
    """The model is built, but a step of this method does not run on fake tensors."""


def simulate(
    config: Mapping[str, Any], method: TrainingMethod, setting: Setting
) -> MemoryBreakdown:
    """Return the memory at the peak of one step of the model of ``config``, weights included.

    Raises:
        StepError: the model's code does not run on fake tensors with this method.
        ReproError: the model cannot be built.
    """

    def read() -> tuple[Tensor, Tensor]:
        """Return tokens [B, N] and the answer of each sequence [B]."""
        tokens = torch.zeros(setting.batch, setting.context, dtype=torch.long)
        return tokens, torch.zeros(setting.batch, dtype=torch.long)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        tokens, answers = batch
        if setting.loss == "all":
            every: Tensor = model(input_ids=tokens, labels=tokens).loss
            return every
        return last_position_loss(model, tokens, answers)

    make = partial(build, config, method, setting)
    return simulate_step(make, read, loss, method, tail=setting.tail)


def simulate_step(
    make: Callable[[], AnyModel],
    read: Callable[[], tuple[Tensor, ...]],
    loss: Callable[[AnyModel, Any], Tensor],
    method: TrainingMethod,
    tail: int = Setting.tail,
) -> MemoryBreakdown:
    """Return the memory at the peak of one step of any training, weights included.

    Args:
        make: makes the model; called under FakeTensorMode, like the others.
        read: makes the tensors of a batch.
        loss: computes the loss of the model on that batch.
        method: the training method.
        tail: last blocks that ElasticZO trains by backpropagation.

    Raises:
        StepError: the model's code does not run on fake tensors.
    """
    with FakeTensorMode():
        model = make()
        batch = read()
        forward = partial(loss, model, batch)
        tracker = _StepTracker()
        try:
            # OPT registers its last norm before the blocks, so ElasticZO traces a forward pass
            optimizer = make_optimizer(
                model,
                method,
                tail=tail,
                trace=forward,
                eps=EPS,
                restore="rounded",
                noise=_OneChunk(),
            )
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            # in this order: buffers of the state, such as quantised matrices, are weights
            tracker.add([*model.buffers()], "other")
            tracker.add([*model.state_dict(keep_vars=True).values()], "parameters")
            if isinstance(optimizer, Backprop) and method.adam:
                _make_state(optimizer.optimizer, trained, tracker)
            tracker.add(batch, "input")
            for parameter in trained:
                hooked: Any = parameter  # torch's types lack this hook
                hooked.register_post_accumulate_grad_hook(tracker.add_gradient)
            with unpacked(), tracker:
                optimizer.step(partial(tracker.inside_model, forward))
        except Exception as error:  # a model's own code may raise anything
            name = type(model).__name__
            msg = f"{name} cannot be simulated by {method.slug}: {reason_of(error)}"
            raise StepError(msg) from error
        return tracker.peak()


def _make_state(
    adam: torch.optim.Optimizer, trained: Sequence[torch.nn.Parameter], tracker: "_StepTracker"
) -> None:
    """Let Adam make its state, which PyTorch does in the first step, and track it."""
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    with _StepTracker():
        adam.step()
    adam.zero_grad()
    for state in adam.state.values():
        tracker.add([state["exp_avg"], state["exp_avg_sq"]], "optimizer_state")
        tracker.add([state["step"]], "other")  # a float32 for each parameter


class _StepTracker(StorageTracker):  # type: ignore[no-untyped-call]
    """Tracks the storages of a step on fake tensors, and makes up the optimizer's input values."""

    def __init__(self) -> None:
        # by the number of the running backward pass, -1 outside of one
        super().__init__(
            lambda _: "errors" if torch._C._current_graph_task_id() != -1 else "activations"
        )
        self._in_model = False

    def inside_model(self, loss: Callable[[], Tensor]) -> Tensor:
        """Return ``loss()`` without making up values, on which its memory could depend."""
        self._in_model = True
        try:
            return loss()
        finally:
            self._in_model = False

    def add_gradient(self, parameter: Tensor) -> None:
        """Count the ``grad`` of ``parameter`` as a gradient."""
        if parameter.grad is not None:
            self.add([parameter.grad], "gradients")

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the operator returns
        if func is torch.ops.aten._local_scalar_dense.default and not self._in_model:
            return 1
        return super().__torch_dispatch__(func, types, args, kwargs)


class _OneChunk(TorchNoise):
    """PyTorch's noise for a single chunk, since all chunks use the same memory in turn."""

    def add_(self, parameters: Sequence[Tensor], seed: int, scale: float) -> None:
        """Perturb the first chunk of the largest parameter."""
        largest = max(parameters, key=Tensor.numel).detach()
        perturb_([largest.view(-1)[: default_chunk(largest.device)]], seed, scale)


def make_optimizer(
    model: nn.Module,
    method: TrainingMethod,
    *,
    lr: float = LR,
    tail: int = Setting.tail,
    trace: Callable[[], Tensor] | None = None,
    perturbations: int = 1,
    **settings: Any,  # noqa: ANN401 - of each optimizer its own
) -> Backprop | ElasticZO | MeZO:
    """Return the optimizer of ``method`` at a fixed learning rate.

    Args:
        model: what it trains: the parameters that need gradients.
        method: the training method.
        lr: learning rate, for both parts of ElasticZO.
        tail: last blocks that ElasticZO trains by backpropagation.
        trace: a forward pass that shows ElasticZO the order of the layers.
        perturbations: n of MeZO.
        settings: ``eps``, ``seed``, ``restore`` and ``noise`` of a zeroth-order method.

    Raises:
        UsageError: a setting is out of range, or the engine's noise is to be drawn on a GPU.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if method.estimator == "backpropagation":
        return Backprop(trained, lr=lr, rule="adam" if method.adam else "sgd")
    if method.estimator == "zeroth-order":
        return MeZO(trained, lr=lr, perturbations=perturbations, **settings)
    return ElasticZO(model, partition_before(model, tail), lr=lr, trace=trace, **settings)
