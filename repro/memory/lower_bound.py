"""The minimum memory of a training step that frees every buffer as soon as it is dead.

The ElasticZO paper counts every tensor of a step as if it lived to the end, and leaves lifetimes
for future work (sections 4.1, 4.4, 5.3). Here a step is the sequence of its operations, layer by
layer over the whole batch, and the bound is the most memory alive at once. Assumptions:

- Each layer's output has its own buffer, except where none is needed. A ReLU works in place unless
  the overwritten values are needed again, and so does a batch norm in a forward pass without a
  backward pass. A reshape is a view. The error of the logits replaces the logits.
- The backward pass needs the inputs of linear layers, convolutions and batch norms, the outputs of
  ReLUs, and inputs and outputs of poolings, whose maxima are found again by comparison. Nothing is
  recomputed.
- A weight's gradient is computed before the error of the layer's input, so that the input can be
  freed; a ReLU's and a batch norm's error is computed in place.
- A gradient lives until its update. Under Full BP the update comes as soon as the layer's error is
  passed on. ElasticZO must not update the backpropagated layers (the tail) before both forward
  passes are done.
- In integers an accumulator is narrowed to int8 in another buffer, since the shift depends on the
  largest of all accumulators. Convolutions and matrix products need no scratch memory.
- Noise is drawn in pieces too small to count, and losses are single numbers.

The bound therefore holds for work done layer by layer on the whole batch. Tiling the batch,
recomputation, or deferring a large gradient until earlier layers are done could go below it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from repro.core.errors import UsageError
from repro.core.names import NumberFormat
from repro.core.partition import partition_index
from repro.core.validation import require_choice, require_positive_int
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.elasticzo import INT32, WIDTHS
from repro.memory.layers import LayerKind, LayerSize


@dataclass
class Buffer:
    """A buffer, written once as a whole and freed after its last use."""

    part: str
    """Field of ``MemoryBreakdown`` that it counts as."""
    size: int
    """Bytes."""
    first: int
    """Operation that writes it."""
    last: int
    """Last operation that reads or changes it."""


class Program:
    """Operations in order; a buffer is alive from its first operation to its last.

    An operation's inputs and output are alive together, except for inputs that it changes in place.
    """

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._operations = 0

    def write(self, part: str, size: int, reads: Iterable[Buffer | None]) -> Buffer:
        """Add an operation that writes a new buffer of ``size`` bytes; return the buffer.

        Args:
            part: field of ``MemoryBreakdown``.
            size: bytes.
            reads: the operation's inputs; ``None`` is memory not counted here.
        """
        self.use(reads)
        buffer = Buffer(part, size, self._operations, self._operations)
        self._buffers.append(buffer)
        return buffer

    def use(self, buffers: Iterable[Buffer | None]) -> None:
        """Add an operation that reads ``buffers`` or changes them in place."""
        self._operations += 1
        for buffer in buffers:
            if buffer is not None:
                buffer.last = self._operations

    def peak(self) -> MemoryBreakdown:
        """Return the memory at the peak, by part."""
        sizes = [0] * (self._operations + 2)  # the total's change at each operation
        for buffer in self._buffers:
            sizes[buffer.first] += buffer.size
            sizes[buffer.last + 1] -= buffer.size
        moment = np.argmax(np.cumsum(sizes))
        alive = [b for b in self._buffers if b.first <= moment <= b.last]
        return MemoryBreakdown.of((buffer.part, buffer.size) for buffer in alive)


_Tape = list[tuple[LayerSize, Buffer | None, Buffer | None]]  # a layer, its input and its output


def lower_bound(
    layers: Sequence[LayerSize],
    partition: str | int,
    batch: int,
    *,
    precision: NumberFormat = "fp32",
) -> MemoryBreakdown:
    """Return the memory at the peak of one step with plain SGD, weights and input included.

    The input is alive throughout: the second forward pass, or the first layer's gradient, needs it.
    It is reported separately because the paper's formulas do not count it.

    Args:
        layers: layers of the model; see ``layer_table``.
        partition: C, or the first layer of the tail; see ``partition_index``.
        batch: B, samples.
        precision: ``int8`` is NITI's integer training.

    Raises:
        UsageError: the layer or precision does not exist, the batch is below 1, there is no layer,
            or the lifetimes of a layer are unknown.
    """
    require_positive_int("batch size B", batch)
    if not layers:
        raise UsageError("layers: there are none; give a network with at least one")
    require_choice("precision", precision, WIDTHS)
    known = [kind for kind in get_args(LayerKind) if kind != "other"]
    if precision == "int8":
        known.remove("batch norm")
    for layer in layers:
        if layer.kind not in known:
            raise UsageError(
                f"layer {layer.name}: there is no memory rule for its kind in {precision}, only "
                f"for {', '.join(known)}"
            )
    start = partition_index(partition, [layer.name for layer in layers])
    step = _Operations(layers, batch, WIDTHS[precision], accumulators=precision == "int8")
    has_zo_part = any(layer.parameters for layer in layers[:start])
    has_bp_part = any(layer.parameters for layer in layers[start:])
    if has_zo_part and has_bp_part:  # the tail's gradients wait for the second pass
        waiting = step.backpropagate(start, update=False)
        step.forward(len(layers))
        step.program.use(waiting)
    elif has_bp_part:
        step.backpropagate(start, update=True)
    if has_zo_part:
        step.forward(len(layers))
    width = WIDTHS[precision]
    return replace(
        step.program.peak(),
        parameters=width * sum(layer.parameters for layer in layers),
        input=width * batch * layers[0].inputs,
    )


class _Operations:
    """The operations of a step, in order."""

    def __init__(
        self, layers: Sequence[LayerSize], batch: int, width: int, *, accumulators: bool
    ) -> None:
        self.layers = layers
        self.batch = batch
        self.width = width
        self.accumulators = accumulators
        self.program = Program()
        self._needed: list[Buffer] = []  # unchanged, by the backward pass

    def forward(self, start: int) -> tuple[Buffer | None, _Tape]:
        """Do a forward pass; return the logits and the tensors stored from layer ``start`` on."""
        value: Buffer | None = None  # the input, owned by the caller
        tape: _Tape = []
        self._needed = []
        for index, layer in enumerate(self.layers):
            output = self._through(layer, value, recorded=index >= start)
            if index >= start:
                tape.append((layer, value, output))
                if layer.kind == "pooling":
                    needed = [value, output]
                elif layer.kind == "ReLU":
                    needed = [output]
                else:
                    needed = [value] if layer.parameters or layer.kind == "batch norm" else []
                self._needed += [buffer for buffer in needed if buffer is not None]
            value = output
        return value, tape

    def backpropagate(self, start: int, *, update: bool) -> list[Buffer]:
        """Do both passes; return the gradients, which are already used if ``update`` is set."""
        logits, tape = self.forward(start)
        if logits is None or self._is_needed(logits):
            last = next(layer for layer in reversed(self.layers) if layer.kind != "reshape")
            size = self.width * self.batch * last.outputs
            error = self.program.write("errors", size, [logits])
        else:
            self.program.use([logits])
            error = logits
        first = next(n for n, (layer, *_) in enumerate(tape) if layer.parameters)
        gradients = []
        for number, (layer, x, y) in reversed(list(enumerate(tape))[first:]):
            if layer.parameters:
                gradient = self._product("gradients", layer.parameters, [x, error])
                gradients.append(gradient)
                if number > first and layer.accumulates:
                    error = self._product("errors", self.batch * layer.inputs, [error])
                elif number > first:
                    self.program.use([x, error])  # batch norm
                if update:
                    self.program.use([gradient])
            elif layer.kind == "pooling":
                size = self.width * self.batch * layer.inputs
                error = self.program.write("errors", size, [x, y, error])
            elif layer.kind == "ReLU":
                self.program.use([y, error])
            elif layer.kind == "batch norm":
                self.program.use([x, error])
        return gradients

    def _through(self, layer: LayerSize, x: Buffer | None, *, recorded: bool) -> Buffer | None:
        if layer.kind == "reshape":
            return x
        if layer.accumulates:
            return self._product("activations", self.batch * layer.outputs, [x])
        elementwise = layer.kind == "ReLU" or (layer.kind == "batch norm" and not recorded)
        if elementwise and x is not None and not self._is_needed(x):
            self.program.use([x])
            return x
        return self.program.write("activations", self.width * self.batch * layer.outputs, [x])

    def _product(self, part: str, elements: int, reads: Sequence[Buffer | None]) -> Buffer:
        """Sum products; in integers, write an accumulator first."""
        if self.accumulators:
            reads = [self.program.write("int32_buffers", INT32 * elements, reads)]
        return self.program.write(part, self.width * elements, reads)

    def _is_needed(self, buffer: Buffer) -> bool:
        return any(buffer is needed for needed in self._needed)
