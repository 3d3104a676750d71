"""Which parameters a method trains."""

from collections.abc import Iterable
from typing import Any

import torch

from repro.core.errors import UsageError


def trainable(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the parameters that need a gradient, each once.

    Raises:
        UsageError: there is none, or one is not contiguous.
    """
    found = [p for p in dict.fromkeys(parameters) if p.requires_grad]
    if not found:
        msg = "no parameter to train: at least one must have requires_grad=True"
        raise UsageError(msg)
    for parameter in found:
        if not parameter.is_contiguous():
            msg = (
                f"a parameter of shape {tuple(parameter.shape)} is not contiguous (channels_last, "
                "or a view): noise is added to flat chunks, make it contiguous first"
            )
            raise UsageError(msg)
    return found


def split_at(
    model: torch.nn.Module, partition: str | int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Split the trainable parameters of ``model`` at a partition point C.

    Args:
        model: any module whose parameters are registered in the order of its layers.
        partition: the first layer of the tail, by its dotted name (``"fc3"``,
            ``"model.layers.30"``), or C itself, the number of direct children before the tail: 0 is
            all tail, ``len(list(model.children()))`` is none.

    Returns:
        The parameters before the partition point and those of the tail, in order.

    Raises:
        UsageError: no layer of that name, a number out of range, or nothing to train.
    """
    trainable(model.parameters())
    head: list[torch.Tensor] = []
    tail: list[torch.Tensor] = []
    tail_names = _tail_names(model, partition)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (tail if name in tail_names else head).append(parameter)
    return head, tail


def single_group(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the only parameter group of a zeroth-order optimizer.

    Raises:
        UsageError: groups were added; one perturbation belongs to one learning rate.
    """
    if len(optimizer.param_groups) != 1:
        msg = f"{len(optimizer.param_groups)} parameter groups: zeroth-order methods take one"
        raise UsageError(msg)
    return optimizer.param_groups[0]


def _tail_names(model: torch.nn.Module, partition: str | int) -> set[str]:
    names = [name for name, _ in model.named_parameters()]
    if isinstance(partition, str):
        inside = [n for n, name in enumerate(names) if f"{name}.".startswith(f"{partition}.")]
        if not inside:
            layers = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in names))
            msg = f"partition {partition!r} names no layer with parameters; there are: {layers}"
            raise UsageError(msg)
        return set(names[inside[0] :])
    children = [name for name, _ in model.named_children()]
    if isinstance(partition, bool) or not 0 <= partition <= len(children):
        msg = f"partition C = {partition!r}: must be from 0 to {len(children)}, or a layer's name"
        raise UsageError(msg)
    return {name for name in names if name.partition(".")[0] in children[partition:]}
