"""The tensors of a real training step of the actual architecture, counted under FakeTensorMode.

No size depends on a value, so the losses' values are left out: the step is the one of
``repro.methods`` in its operations. Optimizer state is there from the beginning, as after the first
step. What comes out is the peak of *logical* bytes: no allocator rounding, and nothing that the
kernels themselves allocate.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.core.errors import ReproError
from repro.memory.parts import Parts
from repro.memory.storages import StorageTracker
from repro.methods.perturbation import default_chunk, perturb_
from repro.models.unpacked import unpacked
from repro.planner.fake_models import build, keeps_logits, reason_of, tail_parameters
from repro.planner.methods import Method
from repro.planner.setting import Setting

Model = TypeVar("Model", bound=nn.Module)


class StepError(ReproError):
    """The model is built, but a step of this method does not run on fake tensors."""


def simulate(config: Mapping[str, Any], method: Method, setting: Setting) -> Parts:
    """Return what is alive at the peak of one step of the model of ``config``, weights included.

    Raises:
        StepError: the model's code does not run on fake tensors by this method.
        ReproError: the model cannot be built.
    """
    return simulate_step(
        partial(build, config, method, setting),
        partial(_batch, setting),
        partial(_loss, setting),
        method,
        tail=setting.tail,
    )


def simulate_step(
    make: Callable[[], Model],
    read: Callable[[], tuple[Tensor, ...]],
    loss: Callable[[Model, Any], Tensor],
    method: Method,
    tail: int = 1,
) -> Parts:
    """Return what is alive at the peak of one step of any training, weights included.

    Args:
        make: makes the model; called under FakeTensorMode, like the others.
        read: makes the tensors that a step reads.
        loss: of the model on that batch.
        method: what is done with the loss.
        tail: last blocks that ElasticZO trains by backpropagation.

    Raises:
        StepError: the model's code does not run on fake tensors.
    """
    with FakeTensorMode():
        model = make()
        trained = _trained(model, method, tail)
        batch = read()
        state = [torch.empty_like(p) for p in trained for _ in range(2 * method.adam)]
        tracker = StorageTracker(_part_of)
        tracker.add([*model.buffers()], "other")
        tracker.add([*model.state_dict(keep_vars=True).values()], "parameters")
        tracker.add(state, "optimizer_state")
        tracker.add(batch, "input")
        try:
            with unpacked(), tracker:
                _run(model, partial(loss, model, batch), trained, state, tracker)
        except Exception as error:  # whatever a model's own code raises
            name = type(model).__name__
            msg = f"{name} cannot be simulated by {method.slug}: {reason_of(error)}"
            raise StepError(msg) from error
        peak = tracker.peak()
    del model, trained, state
    gc.collect()  # the model sits in reference cycles
    return peak


def _batch(setting: Setting) -> tuple[Tensor, Tensor]:
    """Return tokens [B, N] and the answer of each sequence [B]."""
    tokens = torch.zeros(setting.batch, setting.context, dtype=torch.long)
    return tokens, torch.zeros(setting.batch, dtype=torch.long)


def _loss(setting: Setting, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    tokens, answers = batch
    if setting.loss == "all":
        loss: Tensor = model(input_ids=tokens, labels=tokens).loss
        return loss
    kept = {"logits_to_keep": 1} if keeps_logits(model) else {}
    logits = model(input_ids=tokens, **kept).logits[:, -1]  # [B, V]
    return nn.functional.cross_entropy(logits.float(), answers)


def _run(
    model: nn.Module,
    loss: Callable[[], Tensor],
    trained: list[nn.Parameter],
    state: list[Tensor],
    tracker: StorageTracker,
) -> None:
    tail = {id(p) for p in trained}
    moved = [p for p in model.parameters() if p.requires_grad and id(p) not in tail]
    for parameter in moved:
        parameter.requires_grad_(False)  # noqa: FBT003 - torch's own signature
    if moved:
        _perturb(moved)
    with torch.set_grad_enabled(bool(trained)):
        first = loss()
    if trained:
        first.backward()  # type: ignore[no-untyped-call]
        tracker.add([p.grad for p in trained if p.grad is not None], "gradients")
    del first
    with torch.no_grad():
        if moved:
            _perturb(moved)
            loss()
            _perturb(moved)
        _update(trained, state)


def _perturb(parameters: Sequence[Tensor]) -> None:
    """Draw noise as MeZO does: one chunk takes the memory of all of them."""
    largest = max(parameters, key=Tensor.numel).detach()
    perturb_([largest.view(-1)[: default_chunk(largest.device)]], 0, 1e-3)


def _trained(model: nn.Module, method: Method, tail: int) -> list[nn.Parameter]:
    """Return what backpropagation trains."""
    if method.estimator == "zeroth-order":
        return []
    if method.estimator == "both":
        return tail_parameters(model, tail)
    return [p for p in model.parameters() if p.requires_grad]


@torch.no_grad()
def _update(trained: list[nn.Parameter], state: list[Tensor]) -> None:
    """Do the arithmetic of PyTorch's SGD or Adam, one parameter after another."""
    for number, parameter in enumerate(trained):
        if parameter.grad is None:
            continue
        if not state:
            parameter.add_(parameter.grad, alpha=-1e-3)
            continue
        mean, square = state[2 * number : 2 * number + 2]
        mean.lerp_(parameter.grad, 0.1)
        square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
        parameter.addcdiv_(mean, (square.sqrt() / 0.5).add_(1e-8), value=-1e-3)


def _part_of(tensor: Tensor) -> str:  # noqa: ARG001 - the tracker's signature
    backward = torch._C._current_graph_task_id() != -1
    return "errors" if backward else "activations"
