"""The ElasticZO paper's memory formulas (arXiv 2501.04287): equations (2)-(5) and (13)-(15).

Nothing is freed before the end of a step: every layer keeps its output, and every backpropagated
layer also keeps the gradients of its parameters and the error of its output. Our text of the paper
lacks the equations; the formulas here reproduce every figure that it prints.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from repro.core.errors import UsageError
from repro.core.names import NumberFormat
from repro.core.partition import partition_index
from repro.core.validation import require_choice, require_positive_int
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.layers import LayerSize

Optimizer = Literal["sgd", "momentum", "adam"]

INT32 = 4
"""Bytes of an accumulator."""
WIDTHS: dict[NumberFormat, int] = {"fp32": 4, "int8": 1}
"""Bytes of a parameter, an activation, a gradient and an error."""
_STATE_COPIES: dict[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2}


def training_bytes(
    layers: Sequence[LayerSize],
    partition: str | int,
    batch: int,
    *,
    precision: NumberFormat = "fp32",
    optimizer: Optimizer = "sgd",
) -> MemoryBreakdown:
    """Return the memory of one training step by the formulas.

    The tail is the part trained by backpropagation. If it is empty this is Full ZO, equations (3)
    and (14); if it is the whole network, Full BP, equations (2) and (13); else ElasticZO, equations
    (4) and (15).

    Args:
        layers: layers of the model; see ``layer_table``.
        partition: C, or the first layer of the tail; see ``partition_index``.
        batch: B, samples.
        precision: ``int8`` is NITI's integer training.
        optimizer: optimizer of the tail. Momentum keeps one more copy of the tail's parameters,
            Adam two (equation (5), for Full BP). Zeroth-order updates keep none.

    Raises:
        UsageError: the layer, precision or optimizer does not exist, the batch is below 1, or the
            optimizer keeps state in integer training, where NITI has none.
    """
    require_positive_int("batch size B", batch)
    require_choice("precision", precision, WIDTHS)
    require_choice("optimizer", optimizer, get_args(Optimizer))
    if precision == "int8" and optimizer != "sgd":
        msg = f"optimizer = {optimizer!r} in int8: NITI's updates have no state, use 'sgd'"
        raise UsageError(msg)
    tail = layers[partition_index(partition, [layer.name for layer in layers]) :]
    width = WIDTHS[precision]
    trained = sum(layer.parameters for layer in tail)
    int32 = 0
    if precision == "int8":  # accumulators of all outputs, of the tail's gradients and input errors
        outputs = sum(layer.outputs for layer in layers if layer.accumulates)
        inputs = [layer.inputs for layer in tail if layer.accumulates]
        # the tail's first layer with parameters passes no error on
        int32 = INT32 * (batch * outputs + trained + batch * sum(inputs[1:]))
    return MemoryBreakdown(
        parameters=width * sum(layer.parameters for layer in layers),
        gradients=width * trained,
        activations=width * batch * sum(layer.outputs for layer in layers),
        errors=width * batch * sum(layer.outputs for layer in tail),
        int32_buffers=int32,
        optimizer_state=width * trained * _STATE_COPIES[optimizer],
    )
