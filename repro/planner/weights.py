"""Bytes of weights in every storage format, and of the tensors trained with them."""

from repro.memory.setting import BLOCK_4BIT, Setting
from repro.planner.architecture import Architecture

SCALE = 4
"""Bytes of a float32 scale."""


def weight_bytes(a: Architecture, s: Setting) -> float:
    """Return the bytes of the model's weights.

    int8 stores one byte per element and a scale for each output of a matrix; 4-bit stores half a
    byte per element and a scale for every ``BLOCK_4BIT`` elements. Only the matrices of the blocks
    are quantised. As in bitsandbytes, the embedding, the output layer, norms and biases remain
    bfloat16.
    """
    if not s.quantised:
        return s.width * a.parameters
    elements = a.layers * a.block_matrix_parameters
    if s.format == "int8":
        scales = a.layers * sum(outputs for _, outputs in a.matrices)
        stored = float(elements + SCALE * scales)
    else:
        stored = elements * (0.5 + SCALE / BLOCK_4BIT)
    return stored + s.width * (a.parameters - elements)


def dequantised_bytes(a: Architecture, s: Setting) -> float:
    """Return the bytes of the largest matrix while it is dequantised for a product."""
    if not s.quantised:
        return 0
    return s.width * max(inputs * outputs for inputs, outputs in a.matrices)
