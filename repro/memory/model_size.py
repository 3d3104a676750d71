"""How much larger a model MeZO trains than BP in the same memory.

The paper's "at least twice as large" and "several orders of magnitude" are statements about the
size of a model at equal memory. Here the model grows in depth or in width until it fills the
memory that BP takes.
"""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from repro.core.errors import UsageError
from repro.memory.analytic import Sizes, parameter_count, sizes_of
from repro.memory.readings import Reading
from repro.memory.shape import DecoderShape

Growth = Literal["depth", "width"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)


def largest_by_mezo(shape: DecoderShape, budget: float, growth: Growth, reading: Reading) -> float:
    """Return the parameters of the largest model that MeZO trains in ``budget`` bytes.

    Args:
        shape: the model that grows; its N, V, H and B stay.
        budget: bytes.
        growth: ``depth`` varies L, ``width`` varies D, both as real numbers.
        reading: how equations (1) to (3) are read; b is 2.

    Raises:
        UsageError: the budget is too small for one layer, or for a width of 1.
    """
    name = "layers" if growth == "depth" else "hidden"
    low, high = 1.0, 2.0

    def fits(size: float) -> bool:
        return float(reading.mezo_bytes(_sized(shape, name, size))) <= budget

    if not fits(low):
        msg = (
            f"a budget of {budget:.4g} bytes is too small for MeZO at {name} = 1; "
            f"give at least {float(reading.mezo_bytes(_sized(shape, name, 1.0))):.4g}"
        )
        raise UsageError(msg)
    while fits(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return float(parameter_count(_sized(shape, name, low)))


def size_ratio(
    shape: DecoderShape, growth: Growth, reading: Reading, *, checkpointing: bool = False
) -> float:
    """Return how many times ``shape``'s parameters MeZO trains in the memory that BP takes.

    Raises:
        UsageError: as ``largest_by_mezo``.
    """
    s = sizes_of(shape, 2)
    budget = float(reading.bp_bytes(s, checkpointing=checkpointing))
    return largest_by_mezo(shape, budget, growth, reading) / float(parameter_count(s))


def _sized(shape: DecoderShape, name: str, value: float) -> Sizes:
    """Return the sizes of ``shape`` with a real number of layers, or of hidden dimensions."""
    field = "L" if name == "layers" else "D"
    return replace(sizes_of(shape, 2), **{field: np.asarray(value)})
