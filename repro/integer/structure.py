"""Convert the structure of a floating-point network to integer layers."""

import copy
from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.integer.conv import IntegerConv2d
from repro.integer.layers import IntegerFlatten, IntegerReLU, Layer
from repro.integer.linear import IntegerLinear
from repro.integer.pooling import IntegerMaxOverPoints, IntegerMaxPool2d
from repro.integer.tensor import IntegerTensor
from repro.models import pointnet

NewWeight = Callable[[tuple[int, ...]], IntegerTensor]
"""Returns a weight of a given shape."""


def without_bias_and_norm(model: nn.Sequential) -> nn.Sequential:
    """Return the structure of ``model`` for NITI, without biases and batch norm.

    The layers are copies and keep their names.
    """
    layers = OrderedDict[str, nn.Module]()
    for name, module in copy.deepcopy(model).named_children():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.bias = None
        if not isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            layers[name] = module
    return nn.Sequential(layers)


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
    if isinstance(module, nn.Linear):
        _refuse_bias(name, module.bias)
        _refuse_empty(name, module.weight)
        return IntegerLinear(new_weight(tuple(module.weight.shape)))
    if isinstance(module, nn.Conv2d):
        return _conv(name, module, new_weight)
    if isinstance(module, nn.MaxPool2d):
        return _pool(name, module)
    for kind, layer in _PLAIN.items():
        if isinstance(module, kind):
            return layer()
    msg = (
        f"layer {name} ({type(module).__name__}) has no integer form; use Conv2d, Linear, "
        "ReLU, MaxPool2d, Flatten or MaxOverPoints"
    )
    raise UsageError(msg)


_PLAIN: dict[type[nn.Module], Callable[[], Layer]] = {
    nn.ReLU: IntegerReLU,
    nn.Flatten: IntegerFlatten,
    pointnet.MaxOverPoints: IntegerMaxOverPoints,
}


def _refuse_bias(name: str, bias: Tensor | None) -> None:
    if bias is not None:
        msg = f"layer {name} has a bias; NITI networks do not support biases: use bias=False"
        raise UsageError(msg)


def _refuse_empty(name: str, weight: Tensor) -> None:
    if not weight.numel():
        msg = f"layer {name}: weights of shape {tuple(weight.shape)}: every size must be at least 1"
        raise UsageError(msg)


def _conv(name: str, module: nn.Conv2d, new_weight: NewWeight) -> IntegerConv2d:
    _refuse_bias(name, module.bias)
    _refuse_empty(name, module.weight)
    kernel, padding = module.kernel_size, module.padding
    if (
        module.stride != (1, 1)
        or module.dilation != (1, 1)
        or module.groups != 1
        or module.padding_mode != "zeros"
        or kernel[0] != kernel[1]
        or isinstance(padding, str)
        or padding[0] != padding[1]
        or padding[0] >= kernel[0]
    ):
        msg = (
            f"layer {name} ({module}): an integer convolution must have a square kernel, stride 1, "
            "no dilation, one group, and equal padding with zeros, smaller than the kernel"
        )
        raise UsageError(msg)
    return IntegerConv2d(new_weight(tuple(module.weight.shape)), int(padding[0]))


def _pool(name: str, module: nn.MaxPool2d) -> IntegerMaxPool2d:
    kernel = module.kernel_size
    if (
        not isinstance(kernel, int)
        or module.stride != kernel
        or module.padding != 0
        or module.dilation != 1
        or module.ceil_mode
    ):
        msg = (
            f"layer {name} ({module}): integer pooling must have square windows, stride = size, no "
            "padding, no dilation and ceil_mode=False"
        )
        raise UsageError(msg)
    return IntegerMaxPool2d(kernel)
