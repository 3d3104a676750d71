"""A sequential network in integers: forward, and backward through its last layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.names import ShiftVersion
from repro.core.partition import named_layers, partition_index
from repro.core.validation import require_choice, require_whole
from repro.integer.layers import IntegerReLU, Layer, Weighted
from repro.integer.quantise import initialise, quantise
from repro.integer.rounding import LARGEST, largest_magnitude
from repro.integer.shift import POLICIES, ShiftPolicy, gradient
from repro.integer.structure import convert
from repro.integer.tensor import IntegerTensor, require_integers


@dataclass(frozen=True)
class SavedTensors:
    """Tensors of one layer for the backward pass."""

    layer: Layer
    x: Tensor
    """The input, int8."""
    y: Tensor
    """The output, int8."""


@dataclass(frozen=True)
class _Activation:
    """Values between two layers: int8, or accumulators before their shift."""

    values: Tensor
    exponent: int
    """Exponent of the values after the shift to int8."""
    k: int = 0
    """Pending shift of the accumulators; 0 if the values are int8."""
    rectified: bool = False
    """Whether a ReLU is pending, too."""


class IntegerNetwork:
    """Named integer layers, whose weights are stored one after another in one int8 tensor.

    Example::

        network = IntegerNetwork.random(lenet5(bias=False), seed=0)
        logits = network.forward(quantise(images))
    """

    def __init__(self, layers: Mapping[str, Layer], policy: ShiftPolicy) -> None:
        """Take layers with their weights, in order; the weights are copied.

        Raises:
            UsageError: no layer has weights.
        """
        self.layers = dict(layers)
        self.policy = policy
        weighted = self.weighted.values()
        if not weighted:
            raise UsageError("no layer with parameters: there is nothing to train")
        self.parameters = torch.cat([layer.weight.values.flatten() for layer in weighted])
        """All weights, int8 [P]; the layers' weights are views of it."""
        self._bind([layer.weight.exponent for layer in weighted])

    @classmethod
    def random(
        cls, structure: nn.Sequential, *, seed: int, policy: ShiftVersion = "v2"
    ) -> "IntegerNetwork":
        """Return a network with random weights and the layers and names of ``structure``.

        Args:
            structure: a network whose layers are used, not its weights; see ``convert`` for
                supported layers and ``without_bias_and_norm`` for removing others.
            seed: seed of the weights.
            policy: NITI's shift policy.

        Raises:
            UsageError: a layer has no integer form, or the policy is unknown.
        """
        require_choice("shift policy", policy, POLICIES)
        generator = torch.Generator().manual_seed(seed)

        def new_weight(shape: tuple[int, ...]) -> IntegerTensor:
            return initialise(shape, generator)

        layers = {
            name: convert(name, module, new_weight)
            for name, module in named_layers(structure).items()
        }
        return cls(layers, POLICIES[policy])

    @classmethod
    def quantised(cls, model: nn.Sequential, *, policy: ShiftVersion = "v2") -> "IntegerNetwork":
        """Return a network with the layers and the weights of ``model``, to fine-tune in integers.

        Each weight is rounded to int8, with the exponent of its largest magnitude. The logits are
        those of ``model`` up to rounding, a few per cent of their norm. Activations are shifted by
        their own range in every forward pass, so there is nothing to calibrate.

        Args:
            model: a trained float network without biases and batch norms; see ``convert`` for
                supported layers.
            policy: NITI's shift policy.

        Raises:
            UsageError: a layer has no integer form, a weight is not finite or all zero, or the
                policy is unknown.
        """
        require_choice("shift policy", policy, POLICIES)

        def rounded(module: nn.Module, _shape: tuple[int, ...]) -> IntegerTensor:
            weight = quantise(module.get_parameter("weight").detach().float())
            # as NITI clips its weights in training
            return IntegerTensor(weight.values.clamp_(-LARGEST, LARGEST), weight.exponent)

        layers = {
            name: convert(name, module, partial(rounded, module))
            for name, module in named_layers(model).items()
        }
        return cls(layers, POLICIES[policy])

    def __call__(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits, as ``forward``."""
        return self.forward(inputs)

    @property
    def weighted(self) -> dict[str, Weighted]:
        """The layers with weights."""
        return {name: layer for name, layer in self.layers.items() if isinstance(layer, Weighted)}

    @property
    def sizes(self) -> list[int]:
        """Elements of each layer's weight."""
        return [layer.weight.values.numel() for layer in self.weighted.values()]

    @property
    def classes(self) -> int:
        """Number of logits."""
        *_, last = self.weighted.values()
        return last.weight.values.shape[0]

    def partition_index(self, partition: str | int) -> int:
        """Return C, the number of layers before the first one trained by backpropagation.

        Args:
            partition: C itself, or the name of that first layer, which must have weights.

        Raises:
            UsageError: there is no such layer, or the number is out of range.
        """
        return partition_index(partition, list(self.layers), list(self.weighted))

    def forward(
        self, inputs: IntegerTensor, tape: list[SavedTensors] | None = None, start: int = 0
    ) -> IntegerTensor:
        """Return the logits [B, classes].

        Args:
            inputs: [B, C, H, W], [B, N, F] or [B, F].
            tape: receives a record of every layer from ``start`` on.
            start: index of the first recorded layer.

        Raises:
            UsageError: the input is no ``IntegerTensor``, or does not fit a layer.
        """
        require_integers(inputs)
        now = _Activation(_batch_last(inputs.values), inputs.exponent)
        for index, (name, layer) in enumerate(self.layers.items()):
            _require_fitting(name, layer, now.values)
            recorded = tape is not None and index >= start
            if recorded or isinstance(layer, Weighted):
                now = self._narrowed(now)
            x = now.values if recorded else None  # without a record, free the input with its layer
            if isinstance(layer, Weighted):
                now = self._accumulated(name, layer, now)
            elif isinstance(layer, IntegerReLU) and now.k:
                now = replace(now, rectified=True)
            else:
                now = replace(now, values=layer.forward(now.values))
            if tape is not None and x is not None:
                now = self._narrowed(now)
                tape.append(SavedTensors(layer, x, now.values))
        now = self._narrowed(now)
        return IntegerTensor(now.values.t().contiguous(), now.exponent)

    def backward(
        self, tape: list[SavedTensors], error: Tensor, bits: int
    ) -> list[tuple[Weighted, Tensor]]:
        """Return the updates of all recorded layers with weights, the last layer's first.

        No weight is changed here: every error is computed with the weights of the forward pass, as
        in NITI, where a layer passes its error on before it is updated.

        Args:
            tape: the record of ``forward``; consumed, to free activations as soon as possible.
            error: error of the logits, int8 [B, classes].
            bits: b_BP, bits of the updates.
        """
        updates: list[tuple[Weighted, Tensor]] = []
        waiting = sum(isinstance(record.layer, Weighted) for record in tape)
        error = _batch_last(error)
        while len(updates) < waiting:
            record = tape.pop()
            if not isinstance(record.layer, Weighted):
                error = record.layer.backward(record.x, record.y, error)
                continue
            accumulated = record.layer.weight_gradient(record.x, error)
            updates.append((record.layer, gradient(accumulated, bits)))
            # the tail's first layer with weights comes last; nothing before it needs an error
            if len(updates) < waiting:
                error = self.policy.error(record.layer.input_error(error))
        return updates

    def to(self, device: torch.device | str) -> "IntegerNetwork":
        """Move the weights to ``device``, in place; return the network."""
        self.parameters = self.parameters.to(device)
        self._bind([layer.weight.exponent for layer in self.weighted.values()])
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all weights and their exponents."""
        exponents = {name: layer.weight.exponent for name, layer in self.weighted.items()}
        return {
            "parameters": self.parameters.clone(),
            "exponents": exponents,
            "shapes": self._shapes(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the ``state_dict`` of a network with the same layers.

        Raises:
            UsageError: the layers differ, or a weight is -128; nothing is changed.
        """
        parameters, exponents = state["parameters"], dict(state["exponents"])
        own = self._shapes()
        shapes = dict(state.get("shapes", own))
        if list(exponents) != list(own) or list(shapes.items()) != list(own.items()):
            raise UsageError(f"state of weights {shapes}: this network has {own}")
        if parameters.shape != self.parameters.shape:
            raise UsageError(
                f"state of {parameters.numel()} weights: this network has {len(self.parameters)}"
            )
        for name, exponent in exponents.items():
            require_whole(f"exponent of layer {name}", exponent, -(1 << 31), 1 << 31)
        if parameters.dtype != torch.int8 or int(parameters.amin()) < -LARGEST:
            raise UsageError(f"weights must be torch.int8 from -{LARGEST} to {LARGEST}")
        self.parameters.copy_(parameters)
        self._bind(list(exponents.values()))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(layer.weight.values.shape) for name, layer in self.weighted.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled copy; pickle knows nothing of views, so they are made again."""
        self.__dict__.update(state)
        self._bind([layer.weight.exponent for layer in self.weighted.values()])

    def _bind(self, exponents: list[int]) -> None:
        """Make the layers' weights views of ``parameters``."""
        ends = list(accumulate(self.sizes))
        layers = self.weighted.values()
        for layer, exponent, end in zip(layers, exponents, ends, strict=True):
            old = layer.weight.values
            view = self.parameters[end - old.numel() : end].view(old.shape)
            layer.weight = IntegerTensor(view, exponent)

    def _accumulated(self, name: str, layer: Weighted, now: _Activation) -> _Activation:
        """Apply a layer with weights, and defer the shift if that gives the same result.

        A non-decreasing rounding that maps zero to zero commutes with maxima and ReLU. These are
        then applied to the accumulators, and only their fewer outputs are shifted. A cast cannot be
        deferred, since it wraps +128.
        """
        expected = layer.weight.values.shape[1]
        features = now.values.shape[1 if now.values.dim() == 4 else 0]
        if features != expected:
            raise UsageError(f"layer {name}: {features} input features, must be {expected}")
        accumulator = layer.accumulate(now.values)
        k = max(self.policy.shift_of(largest_magnitude(accumulator)), 0)
        exponent = now.exponent + layer.weight.exponent + k
        if k and self.policy.order_preserving:
            return _Activation(accumulator, exponent, k)
        return _Activation(self.policy.narrow(accumulator, k), exponent)

    def _narrowed(self, now: _Activation) -> _Activation:
        """Apply the pending shift to the accumulators."""
        if now.k == 0:
            return now
        values = self.policy.narrow(now.values, now.k)
        return _Activation(values.clamp_(min=0) if now.rectified else values, now.exponent)


def _require_fitting(name: str, layer: Layer, values: Tensor) -> None:
    """Raise ``UsageError`` if a layer's input, batch last, has wrong axes or is a small image."""
    if values.dim() not in layer.axes:
        raise UsageError(
            f"layer {name} ({type(layer).__name__}): its input has {values.dim()} axes with the "
            f"batch, must have {' or '.join(map(str, layer.axes))}; nn.Flatten makes 2 of 4"
        )
    if values.dim() == 4 and min(values.shape[0], values.shape[2]) < layer.smallest:
        raise UsageError(
            f"layer {name} ({type(layer).__name__}): images of {values.shape[0]} x "
            f"{values.shape[2]}, must be at least {layer.smallest} x {layer.smallest}"
        )


def _batch_last(values: Tensor) -> Tensor:
    """Return [H, C, W, B] of [B, C, H, W], [F, N, B] of [B, N, F], or [F, B] of [B, F].

    Raises:
        UsageError: the input has another number of axes.
    """
    if not 2 <= values.dim() <= 4:
        msg = f"input of shape {tuple(values.shape)}: must be [B, C, H, W], [B, N, F] or [B, F]"
        raise UsageError(msg)
    axes = (2, 1, 3, 0) if values.dim() == 4 else tuple(reversed(range(values.dim())))
    return values.permute(axes).contiguous()
