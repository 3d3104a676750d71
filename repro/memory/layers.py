"""Trace one sample through a sequential model and describe each layer's memory."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import _MaxPoolNd

from repro.core.errors import UsageError
from repro.core.partition import named_layers
from repro.core.validation import require_positive_int
from repro.models.pointnet import MaxOverPoints

LayerKind = Literal["linear", "convolution", "batch norm", "ReLU", "pooling", "reshape", "other"]

_KINDS: tuple[tuple[type[nn.Module], LayerKind], ...] = (
    (nn.Linear, "linear"),
    (_ConvNd, "convolution"),
    (_BatchNorm, "batch norm"),
    (nn.ReLU, "ReLU"),
    (_MaxPoolNd, "pooling"),
    (MaxOverPoints, "pooling"),
    (nn.Flatten, "reshape"),
    (nn.Unflatten, "reshape"),
    (nn.Identity, "reshape"),
)


@dataclass(frozen=True)
class LayerSize:
    """One layer of a sequential model."""

    name: str
    """Dotted name, as in ``named_modules``."""
    kind: LayerKind
    parameters: int
    """Number of parameters, trainable or not; a tied parameter belongs to its first layer."""
    inputs: int
    """Elements of its input for one sample."""
    outputs: int
    """Elements of its output for one sample; 0 for a reshape, which is a view."""

    @property
    def accumulates(self) -> bool:
        """Whether the layer sums products, which an integer network does in int32."""
        return self.kind in ("linear", "convolution")


def layer_table(model: nn.Module, sample: Sequence[int]) -> tuple[LayerSize, ...]:
    """Return the layers of ``model`` in execution order, with nested sequences flattened.

    The model itself computes nothing: a copy of it without data is traced.

    Args:
        model: any ``nn.Sequential``.
        sample: shape of one sample, without the batch: [1, 28, 28] for LeNet-5, [N, 3] for
            PointNet, [D] for D numbers.

    Raises:
        UsageError: ``model`` is not an ``nn.Sequential``, does not accept a sample of that shape,
            or has a layer that returns several tensors.
    """
    if not isinstance(model, nn.Sequential):
        msg = f"{type(model).__name__}: must be an nn.Sequential; wrap the layers in one"
        raise UsageError(msg)
    if isinstance(sample, int):
        raise UsageError(f"sample = {sample}: give the shape of a sample, as in [{sample}]")
    for size in sample:
        require_positive_int("size of a sample", size)
    # eval, since in training a batch norm refuses a single value per channel
    without_data = copy.deepcopy(model).to("meta").eval()
    counted: set[nn.Parameter] = set()
    layers = []
    value = torch.empty(1, *sample, device="meta")
    for name, module in _leaves(without_data):
        inputs = value.numel()
        try:
            with torch.no_grad():
                value = module(value)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            shape = list(value.shape[1:])
            msg = f"layer {name} ({module}) does not take a sample of shape {shape}: {error}"
            raise UsageError(msg) from error
        if not isinstance(value, torch.Tensor):
            msg = f"layer {name} ({module}) returns a {type(value).__name__}: must be one tensor"
            raise UsageError(msg)
        kind: LayerKind = next(
            (kind for types, kind in _KINDS if isinstance(module, types)), "other"
        )
        own = set(model.get_submodule(name).parameters()) - counted  # the copy unties weights
        counted |= own
        layers.append(
            LayerSize(
                name,
                kind,
                parameters=sum(parameter.numel() for parameter in own),
                inputs=inputs,
                outputs=0 if kind == "reshape" else value.numel(),
            )
        )
    return tuple(layers)


def _leaves(model: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, module in named_layers(model).items():
        if isinstance(module, nn.Sequential):
            yield from _leaves(module, f"{prefix}{name}.")
        else:
            yield prefix + name, module
