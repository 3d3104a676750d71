"""Initial weights: Xavier's distribution, scaled to the whole int8 range (NITI v2, ti_torch.py)."""

from typing import Literal

import torch
from torch import nn

from repro.integer.quantise import exponent_of
from repro.integer.rounding import LARGEST
from repro.integer.tensor import IntegerTensor

Distribution = Literal["uniform", "normal"]
"""Xavier uniform is v2's, Xavier normal v1's."""


def initialise(
    shape: tuple[int, ...], generator: torch.Generator, distribution: Distribution
) -> IntegerTensor:
    """Return a random weight: round(127 w / max|w|), with the exponent ceil(log2(max|w|)) - 7.

    The exponent does not match the scale of the mantissas: the weight is Xavier's times
    c = (127/128) 2^ceil(log2 max|w|) / max|w|, from 0.99 to 1.98.

    Args:
        shape: [out, in] or [out, in, k, k].
        generator: a CPU generator.
        distribution: which of Xavier's two distributions.
    """
    weight = torch.empty(shape)
    fill = {"uniform": nn.init.xavier_uniform_, "normal": nn.init.xavier_normal_}[distribution]
    fill(weight, generator=generator)
    low, high = torch.aminmax(weight)
    largest = torch.maximum(-low, high)
    # in place: another float32 copy of the largest weight would exceed the memory of an integer
    # step
    values = weight.div_(largest).mul_(LARGEST).round_().to(torch.int8)
    return IntegerTensor(values, exponent_of(float(largest)))
