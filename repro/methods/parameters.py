"""Which parameters a method trains."""

from collections.abc import Iterable
from typing import Any

import torch

from repro.core.errors import UsageError
from repro.core.partition import partition_index


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
        partition: the first layer to train by backpropagation, by its dotted name (``"fc3"``,
            ``"model.layers.30"``), or C itself, the number of direct children before it: with 0
            backpropagation trains everything, with ``len(list(model.children()))`` nothing.

    Returns:
        The parameters trained by zeroth order and those trained by backpropagation, in order.

    Raises:
        UsageError: no layer of that name, a number out of range, or nothing to train.
    """
    trainable(model.parameters())
    names, parameters = zip(*model.named_parameters(), strict=True)
    if isinstance(partition, str):
        start = partition_index(partition, [name.rpartition(".")[0] or name for name in names])
    else:
        children = [name for name, _ in model.named_children()]
        last = set(children[partition_index(partition, children) :])
        start = sum(name.partition(".")[0] not in last for name in names)
    zo_params = [parameter for parameter in parameters[:start] if parameter.requires_grad]
    bp_params = [parameter for parameter in parameters[start:] if parameter.requires_grad]
    return zo_params, bp_params


def single_group(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the only parameter group of a zeroth-order optimizer.

    Raises:
        UsageError: groups were added; one perturbation belongs to one learning rate.
    """
    if len(optimizer.param_groups) != 1:
        msg = f"{len(optimizer.param_groups)} parameter groups: zeroth-order methods take one"
        raise UsageError(msg)
    return optimizer.param_groups[0]
