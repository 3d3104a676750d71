"""From the structure of a PyTorch network to the engine's layer table."""

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from repro.core.errors import UsageError
from repro.core.partition import named_layers, partition_index
from repro.integer.structure import plain_padding, plain_window, require_plain
from repro.models import pointnet


@dataclass(frozen=True)
class EngineLayer:
    """A layer with weights and the layers fused with it, for one size of input (``cpp/layer.hpp``).

    A batch norm comes first, then a ReLU and a pooling.

    A fully connected layer is a convolution whose kernel covers its input, one that all points
    share a 1 x 1 convolution over a row of points.
    """

    name: str
    channels: int
    height: int
    width: int
    outputs: int
    kernel_height: int
    kernel_width: int
    padding: int
    bias: bool
    rectified: bool = False
    pool_height: int = 1
    pool_width: int = 1
    normed: bool = False
    norm_eps: float = 1e-5
    norm_momentum: float = 0.1
    norm_frozen: bool = False

    @property
    def rows(self) -> int:
        """Rows of sums, before pooling."""
        return self.height + 2 * self.padding - self.kernel_height + 1

    @property
    def columns(self) -> int:
        """Columns of sums, before pooling."""
        return self.width + 2 * self.padding - self.kernel_width + 1

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns behind the pooling."""
        return self.outputs, self.rows // self.pool_height, self.columns // self.pool_width


def layer_table(structure: nn.Sequential, input_shape: tuple[int, ...]) -> list[EngineLayer]:
    """Return the layers of ``structure``, in order, one for each module with weights.

    A batch norm in evaluation mode is frozen: training uses its running statistics and keeps them.

    Args:
        structure: Conv2d (stride 1, square kernel), Linear, batch norm right behind one of these,
            ReLU, MaxPool2d, Flatten and MaxOverPoints.
        input_shape: of a sample: [C, H, W], [N, F] for clouds, or [F].

    Raises:
        UsageError: a module, a setting or an order without a kernel in the engine.
    """
    shape = _as_image(input_shape)
    layers: list[EngineLayer] = []
    axes = len(input_shape)
    for name, module in named_layers(structure).items():
        _check_axes(name, module, axes)
        if isinstance(module, nn.Linear):
            layers.append(_linear(name, module, shape, flat=axes == 1))
        elif isinstance(module, nn.Conv2d):
            layers.append(_conv(name, module, shape))
        elif isinstance(module, nn.Flatten):
            if (module.start_dim, module.end_dim) != (1, -1):
                msg = f"layer {name} ({module}): must flatten all but the batch: use nn.Flatten()"
                raise UsageError(msg)
            axes = 1
        elif not layers:
            raise UsageError(
                f"layer {name} ({type(module).__name__}) comes before any layer with weights; move "
                "it behind one"
            )
        elif isinstance(module, _NORMS):
            layers[-1] = _normed(name, module, layers[-1])
        elif isinstance(module, nn.ReLU):
            layers[-1] = replace(layers[-1], rectified=True)
        elif isinstance(module, nn.MaxPool2d):
            window = plain_window(module)
            if window is None:
                raise UsageError(
                    f"layer {name} ({module}): pooling must have square windows, stride = size, no "
                    "padding"
                )
            layers[-1] = _pooled(name, layers[-1], window, window)
        else:
            layers[-1] = _pooled(name, layers[-1], 1, layers[-1].columns)
            axes = 1
        if layers:
            shape = layers[-1].output_shape
    if axes != 1:
        msg = "the last layer gives no row of logits: Flatten or MaxOverPoints must come before it"
        raise UsageError(msg)
    return layers


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_AXES: dict[type[nn.Module], tuple[int, ...]] = {
    nn.Conv2d: (3,),
    nn.Linear: (1, 2),
    pointnet.PointBatchNorm: (2,),  # before BatchNorm1d, which it is too
    nn.BatchNorm1d: (1,),
    nn.BatchNorm2d: (3,),
    nn.ReLU: (1, 2, 3),
    nn.MaxPool2d: (3,),
    nn.Flatten: (1, 3),
    pointnet.MaxOverPoints: (2,),
}
"""Axes of a sample at each module: images have 3, clouds of points 2, features 1."""


def _check_axes(name: str, module: nn.Module, axes: int) -> None:
    known = [allowed for kind, allowed in _AXES.items() if isinstance(module, kind)]
    if not known:
        kinds = ", ".join(kind.__name__ for kind in _AXES)
        msg = f"layer {name} ({type(module).__name__}): not supported by the engine; use {kinds}"
        raise UsageError(msg)
    if axes not in known[0]:
        raise UsageError(
            f"layer {name} ({type(module).__name__}) of samples with {axes} axes: the engine "
            f"supports {' or '.join(map(str, known[0]))} (images have 3, clouds 2, features 1)"
        )
    require_plain(name, module)


def _as_image(shape: Any) -> tuple[int, int, int]:  # noqa: ANN401 - whatever a user gives
    if not isinstance(shape, tuple | list) or not all(type(n) is int and n > 0 for n in shape):
        raise UsageError(f"samples of shape {shape!r}: must be a tuple of whole numbers above 0")
    if len(shape) == 3:
        channels, height, width = shape
        return channels, height, width
    if len(shape) == 2:
        points, features = shape
        return features, 1, points
    if len(shape) == 1:
        return shape[0], 1, 1
    raise UsageError(f"samples of shape {shape}: must be [C, H, W], [N, F] or [F]")


def _linear(
    name: str, module: nn.Linear, shape: tuple[int, int, int], *, flat: bool
) -> EngineLayer:
    channels, height, width = shape
    inputs = channels * height * width if flat else channels
    if inputs != module.in_features:
        raise UsageError(f"layer {name}: {inputs} input features, must be {module.in_features}")
    kernel = (height, width) if flat else (1, 1)
    return EngineLayer(name, *shape, module.out_features, *kernel, 0, module.bias is not None)


def _conv(name: str, module: nn.Conv2d, shape: tuple[int, int, int]) -> EngineLayer:
    padding = plain_padding(module)
    if padding is None or shape[0] != module.in_channels:
        raise UsageError(
            f"layer {name} ({module}) on {shape[0]} channels: a convolution must have as many "
            "input channels, a square kernel, stride 1, no dilation, one group and equal padding "
            "with zeros on all sides"
        )
    height, width = module.kernel_size
    bias = module.bias is not None
    return EngineLayer(name, *shape, module.out_channels, height, width, padding, bias)


def _normed(name: str, module: nn.BatchNorm1d | nn.BatchNorm2d, layer: EngineLayer) -> EngineLayer:
    if layer.normed or layer.rectified or layer.pool_height * layer.pool_width > 1:
        raise UsageError(f"layer {name}: batch norm must come directly after a layer with weights")
    if not module.affine or not module.track_running_stats or module.momentum is None:
        msg = f"layer {name} ({module}): batch norm must have weights, running statistics, momentum"
        raise UsageError(msg)
    if module.num_features != layer.outputs:
        raise UsageError(f"layer {name}: {layer.outputs} features, must be {module.num_features}")
    return replace(
        layer,
        normed=True,
        norm_eps=module.eps,
        norm_momentum=module.momentum,
        norm_frozen=not module.training,
    )


def norms(structure: nn.Sequential) -> list[nn.BatchNorm1d | nn.BatchNorm2d]:
    """Return the batch norms, one for each layer that is ``normed``, in order."""
    return [module for module in named_layers(structure).values() if isinstance(module, _NORMS)]


def _pooled(name: str, layer: EngineLayer, height: int, width: int) -> EngineLayer:
    if layer.pool_height * layer.pool_width > 1:
        raise UsageError(f"layer {name}: only one pooling may follow a layer with weights")
    return replace(layer, pool_height=height, pool_width=width)


def first_bp_layer(
    structure: nn.Sequential, layers: list[EngineLayer], partition: str | int
) -> int:
    """Return the index in ``layers`` of the first layer that backpropagation trains.

    Args:
        structure: the modules that the layers were made from.
        layers: its layer table.
        partition: the name of a child with weights, or the number C of children before it.

    Raises:
        UsageError: no such layer, or it is between a layer and its batch norm.
    """
    children = named_layers(structure)
    names = list(children)
    with_weights = [name for name, child in children.items() if [*child.parameters()]]
    before = partition_index(partition, names, with_weights)
    if before < len(names) and isinstance(structure[before], _NORMS):
        msg = f"partition {partition!r}: {names[before]} belongs to the layer before it; name that"
        raise UsageError(msg)
    weighted = {layer.name for layer in layers}
    return sum(name in weighted for name in names[:before])
