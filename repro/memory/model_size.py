"""Compute how much larger a model MeZO can train than BP in the same memory.

The paper's "at least twice as large" and "several orders of magnitude" are statements about the
size of a model at equal memory. Here the model grows in depth or in width until it fills the
memory that BP takes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from repro.core.errors import UsageError
from repro.memory.analytic import Float, Sizes, parameter_count, sizes_of
from repro.memory.readings import Reading
from repro.memory.shape import DecoderShape

Growth = Literal["depth", "width"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)


def largest_model(
    shape: DecoderShape,
    budget: float,
    growth: Growth,
    bytes_of: Callable[[Sizes], Float],
    bytes_per_parameter: float = 2,
) -> float:
    """Return the parameters of the largest model that can be trained in ``budget`` bytes.

    Args:
        shape: the model that grows; its N, V, H and B are kept.
        budget: bytes.
        growth: ``depth`` varies L, ``width`` varies D, both as real numbers.
        bytes_of: returns the memory of training a model, such as ``Reading().mezo_bytes``.
        bytes_per_parameter: b.

    Raises:
        UsageError: the budget is too small for one layer, or for a width of 1.
    """
    name, field = ("layers", "L") if growth == "depth" else ("hidden", "D")
    sizes = sizes_of(shape, bytes_per_parameter)
    low, high = 1.0, 2.0

    def sized(value: float) -> Sizes:
        return replace(sizes, **{field: np.asarray(value)})

    def taken(size: float) -> float:
        return float(bytes_of(sized(size)))

    def fits(size: float) -> bool:
        return taken(size) <= budget

    if not fits(low):
        msg = (
            f"a budget of {budget:.4g} bytes is too small for {name} = 1; give at least "
            f"{taken(low):.4g}"
        )
        raise UsageError(msg)
    while fits(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return float(parameter_count(sized(low)))


def size_ratio(
    shape: DecoderShape, growth: Growth, reading: Reading, *, checkpointing: bool = False
) -> float:
    """Return the parameters that MeZO trains in BP's memory for ``shape``, over ``shape``'s own.

    Raises:
        UsageError: as ``largest_model``.
    """
    s = sizes_of(shape, 2)
    budget = float(reading.bp_bytes(s, checkpointing=checkpointing))
    return largest_model(shape, budget, growth, reading.mezo_bytes) / float(parameter_count(s))
