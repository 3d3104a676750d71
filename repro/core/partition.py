"""The partition point of ElasticZO: the first layer trained by backpropagation."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from repro.core.errors import UsageError
from repro.core.validation import require_whole

if TYPE_CHECKING:
    from torch import nn


def children_of(network: "nn.Module") -> dict[str, "nn.Module"]:
    """Return the direct children of ``network`` by name, in order.

    A module that has two names, such as one ReLU used twice, is a child twice. PyTorch's
    ``named_children`` would leave out the second.
    """
    return {name: module for name, module in network._modules.items() if module is not None}


def named_layers(network: "nn.Module") -> dict[str, "nn.Module"]:
    """Return ``children_of`` a network that runs them one after another and shares no weights.

    Raises:
        UsageError: it is no plain ``nn.Sequential``, or two layers hold the same parameter.
    """
    from torch import nn

    if not isinstance(network, nn.Sequential) or type(network).forward is not nn.Sequential.forward:
        raise UsageError(
            f"{type(network).__name__} is no plain nn.Sequential, so the order of its layers and "
            "what its own forward() does are unknown: put its layers, also ReLUs, into "
            "nn.Sequential in the order in which they run"
        )
    require_unaltered(type(network).__name__, network)
    layers = children_of(network)
    first: dict[int, str] = {}
    for name, module in layers.items():
        for parameter in module.parameters():
            if first.setdefault(id(parameter), name) != name:
                raise UsageError(
                    f"layer {name} has a weight or bias of layer {first[id(parameter)]}: layers "
                    "that share their weights are not supported; give each its own"
                )
    return layers


def require_unaltered(name: str, module: "nn.Module") -> None:
    """Raise ``UsageError`` unless a call of ``module`` runs its class's ``forward`` alone."""
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        msg = f"{name} has forward hooks or a replaced forward(), which would not run; remove them"
        raise UsageError(msg)


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
        msg = f"partition {partition!r} names no layer; {_suggestion(partition, list(names))}"
        raise UsageError(msg)
    return require_whole("partition C (or a layer's name)", partition, 0, len(layers))


_SHOWN = 12
"""Number of layers that an error names."""


def _suggestion(wanted: str, names: Sequence[str]) -> str:
    """Name the layers that may be meant: those that end in the given name, or similar ones."""
    modules = dict.fromkeys(
        ".".join(parts[: end + 1])
        for name in names
        for parts in [name.split(".")]
        for end in range(len(parts))
    )
    meant = [name for name in modules if name.endswith(f".{wanted}")]
    meant = meant or get_close_matches(wanted, modules, n=3)
    there = list(dict.fromkeys(names))
    shown = ", ".join(there[:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
    hint = f"did you mean {' or '.join(meant[:3])}? " if meant else ""
    return f"{hint}{'T' if hint else 't'}here are: {shown}"
