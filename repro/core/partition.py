"""The partition point of ElasticZO: the first layer trained by backpropagation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn


def children_of(network: "nn.Module") -> dict[str, "nn.Module"]:
    """Return the direct children of ``network`` by name, in order.

    A module that has two names, such as one ReLU used twice, is a child twice. PyTorch's
    ``named_children`` would leave out the second.
    """
    return {name: module for name, module in network._modules.items() if module is not None}


def named_layers(network: "nn.Module") -> dict[str, "nn.Module"]:
    """Return ``children_of`` a network whose layers share no weights.

    Raises:
        UsageError: two layers hold the same parameter.
    """
    layers = children_of(network)
    first: dict[int, str] = {}
    for name, module in layers.items():
        for parameter in module.parameters():
            if first.setdefault(id(parameter), name) != name:
                msg = (
                    f"layer {name} has a weight or bias of layer {first[id(parameter)]}: layers "
                    "that share their weights are not supported; give each its own"
                )
                raise UsageError(msg)
    return layers


def partition_index(
    partition: str | int, layers: Sequence[str], nameable: Sequence[str] | None = None
) -> int:
    """Return C, the number of ``layers`` before the first one trained by backpropagation.

    Args:
        partition: C itself, from 0 (Full BP) to the number of layers (Full ZO), or the dotted name
            of the first backpropagated layer or of a module that starts with it, such as
            ``"model.layers.30"``.
        layers: the names of all layers, in order.
        nameable: the layers that ``partition`` may name; by default all.

    Raises:
        UsageError: no such layer, or a number out of range.
    """
    if isinstance(partition, str):
        names = layers if nameable is None else nameable
        for name in names:
            # the dots keep "layers.3" from naming "layers.30"
            if f"{name}.".startswith(f"{partition}."):
                return layers.index(name)
        there = ", ".join(dict.fromkeys(names))
        msg = f"partition {partition!r} names no layer; there are: {there}"
        raise UsageError(msg)
    if isinstance(partition, bool) or not 0 <= partition <= len(layers):
        msg = f"partition C = {partition!r}: must be from 0 to {len(layers)}, or a layer's name"
        raise UsageError(msg)
    return partition
