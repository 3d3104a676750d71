"""Convert the structure of a floating-point network to integer layers."""

import copy
from collections import OrderedDict
from collections.abc import Callable

from torch import nn

from repro.core.errors import UsageError
from repro.core.partition import named_layers, require_unaltered
from repro.integer.conv import IntegerConv2d
from repro.integer.layers import (
    IntegerFlatten,
    IntegerLinear,
    IntegerMaxOverPoints,
    IntegerMaxPool2d,
    IntegerReLU,
    Layer,
)
from repro.integer.tensor import IntegerTensor
from repro.models import lean, pointnet

NewWeight = Callable[[tuple[int, ...]], IntegerTensor]
"""Returns a weight of a given shape."""


def without_bias_and_norm(model: nn.Sequential) -> nn.Sequential:
    """Return the structure of ``model`` for NITI, without biases and batch norm.

    The layers are copies and keep their names.
    """
    layers = OrderedDict[str, nn.Module]()
    for name, module in named_layers(copy.deepcopy(model)).items():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.bias = None
        if not isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            layers[name] = module
    return nn.Sequential(layers)


def require_plain(name: str, module: nn.Module) -> None:
    """Check that a layer computes what its class does, from a weight and a bias of its own.

    Raises:
        UsageError: it has a ``forward`` of its own or hooks, or other parameters, from which
            pruning, weight norm and the like compute the weight.
    """
    others = {path for path, _ in module.named_parameters()} - {"weight", "bias"}
    if others:
        raise UsageError(
            f"layer {name} computes its weight from {', '.join(sorted(others))}, which is not "
            "supported; remove its pruning or parametrization"
        )
    require_unaltered(f"layer {name}", module)
    if type(module).forward not in _FORWARD:
        kind = type(module).__name__
        raise UsageError(f"layer {name} ({kind}) has its own forward(), which is not supported")


_FORWARD = {
    kind.forward
    for kind in (
        nn.Linear, nn.Conv2d, lean.LeanConv2d, nn.BatchNorm1d, pointnet.PointBatchNorm, nn.ReLU,
        lean.LeanReLU, nn.MaxPool2d, lean.MaxPool2x2, nn.Flatten, pointnet.MaxOverPoints,
    )
}  # fmt: skip


def convert(name: str, module: nn.Module, new_weight: NewWeight) -> Layer:
    """Return the integer layer that corresponds to ``module``.

    Args:
        name: the layer's name, for errors.
        module: convolution or linear layer without bias, ReLU, max pooling, flatten, or PointNet's
            maximum over points.
        new_weight: called once if the layer has a weight.

    Raises:
        UsageError: no integer layer supports the module or one of its settings.
    """
    if isinstance(module, _CONVERTED):
        require_plain(name, module)
    if isinstance(module, nn.Linear | nn.Conv2d):
        if module.bias is not None:
            msg = f"layer {name} has a bias; NITI networks do not support biases: use bias=False"
            raise UsageError(msg)
        if not module.weight.numel():
            shape = tuple(module.weight.shape)
            msg = f"layer {name}: weights of shape {shape}: every size must be at least 1"
            raise UsageError(msg)
    if isinstance(module, nn.Linear):
        return IntegerLinear(new_weight(tuple(module.weight.shape)))
    if isinstance(module, nn.Conv2d):
        padding = plain_padding(module)
        if padding is None or padding >= module.kernel_size[0]:
            raise UsageError(
                f"layer {name} ({module}): an integer convolution must have a square kernel, "
                "stride 1, no dilation, one group, and equal padding with zeros, smaller than the "
                "kernel"
            )
        return IntegerConv2d(new_weight(tuple(module.weight.shape)), padding)
    if isinstance(module, nn.MaxPool2d):
        window = plain_window(module)
        if window is None:
            raise UsageError(
                f"layer {name} ({module}): integer pooling must have square windows, stride = "
                "size, no padding, no dilation and ceil_mode=False"
            )
        return IntegerMaxPool2d(window)
    if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
        msg = f"layer {name} ({module}): must flatten all but the batch: use nn.Flatten()"
        raise UsageError(msg)
    for kind, layer in _PLAIN.items():
        if isinstance(module, kind):
            return layer()
    raise UsageError(
        f"layer {name} ({type(module).__name__}) has no integer form; use Conv2d, Linear, "
        "ReLU, MaxPool2d, Flatten or MaxOverPoints"
    )


_CONVERTED = (nn.Linear, nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.Flatten, pointnet.MaxOverPoints)
_PLAIN: dict[type[nn.Module], Callable[[], Layer]] = {
    nn.ReLU: IntegerReLU,
    nn.Flatten: IntegerFlatten,
    pointnet.MaxOverPoints: IntegerMaxOverPoints,
}


def plain_padding(module: nn.Conv2d) -> int | None:
    """Return the padding of a convolution; ``None`` if it is not of the plain kind.

    A plain one has a square kernel, stride 1, no dilation, one group and equal padding with zeros.
    """
    kernel, padding = module.kernel_size, module.padding
    if (
        module.stride != (1, 1)
        or module.dilation != (1, 1)
        or module.groups != 1
        or module.padding_mode != "zeros"
        or kernel[0] != kernel[1]
        or isinstance(padding, str)
        or padding[0] != padding[1]
    ):
        return None
    return padding[0]


def plain_window(module: nn.MaxPool2d) -> int | None:
    """Return the side of a pooling's windows; ``None`` unless they are square and side by side."""
    sizes = (module.kernel_size, module.stride, module.padding, module.dilation)
    pairs = [size if isinstance(size, tuple) else (size, size) for size in sizes]
    side = pairs[0][0]
    if pairs != [(side, side), (side, side), (0, 0), (1, 1)] or side < 1 or module.ceil_mode:
        return None
    return side
