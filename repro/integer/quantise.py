"""Integers from floating point: the network's input and initial weights (NITI v2, ti_torch.py)."""

import math

import torch
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.integer.rounding import LARGEST, MAGNITUDE_BITS
from repro.integer.tensor import IntegerTensor, ldexp


def exponent_of(largest: float) -> int:
    """Return ceil(log2(largest)) - 7, the exponent at which ``largest`` needs 7 bits.

    Raises:
        UsageError: ``largest`` is not finite and positive.
    """
    if not math.isfinite(largest) or largest <= 0:
        msg = f"largest magnitude = {largest}: must be finite and above 0 to choose an exponent"
        raise UsageError(msg)
    fraction, exponent = math.frexp(largest)  # largest = fraction * 2^exponent, fraction >= 1/2
    return exponent - (fraction == 0.5) - MAGNITUDE_BITS


def quantise(numbers: Tensor, exponent: int | None = None) -> IntegerTensor:
    """Return clamp(round(numbers / 2^exponent), -128, 127), halves to even.

    A training set is quantised once, at the exponent of its largest magnitude, so an image has the
    same values in every batch. NITI uses the exponent of each batch instead; to do so, call this on
    a batch without ``exponent``.

    Args:
        numbers: floating point, any shape.
        exponent: by default ``exponent_of`` their largest magnitude.

    Raises:
        UsageError: ``numbers`` is no tensor or is empty, a number is not finite, or all are zero
            and there is no ``exponent``.
    """
    given: object = numbers
    if not isinstance(given, Tensor):
        msg = f"numbers: a {type(given).__name__}; give a tensor, as by torch.as_tensor()"
        raise UsageError(msg)
    if not numbers.numel():
        raise UsageError(f"numbers of shape {tuple(numbers.shape)}: there is nothing to quantise")
    largest = float(numbers.abs().max())
    if not math.isfinite(largest):
        raise UsageError(f"largest magnitude = {largest}: only finite numbers can be quantised")
    chosen = exponent_of(largest) if exponent is None else exponent
    scaled = ldexp(numbers, -chosen).round_()
    # NITI clips weights and activations to -127, but inputs to -128 (v2 ti_torch.py:354)
    return IntegerTensor(scaled.clamp_(-128, 127).to(torch.int8), chosen)


def initialise(shape: tuple[int, ...], generator: torch.Generator) -> IntegerTensor:
    """Return a random weight: round(127 w / max|w|), with the exponent ceil(log2(max|w|)) - 7.

    w has Xavier's uniform distribution, as in NITI v2; v1 has the normal one.

    The exponent does not match the scale of the mantissas: the weight is Xavier's times
    c = (127/128) 2^ceil(log2 max|w|) / max|w|, from 0.99 to 1.98.

    Args:
        shape: [out, in] or [out, in, k, k].
        generator: a CPU generator.
    """
    weight = nn.init.xavier_uniform_(torch.empty(shape), generator=generator)
    low, high = torch.aminmax(weight)
    largest = torch.maximum(-low, high)
    # in place: another float32 copy of the largest weight would exceed the memory of an integer
    # step
    values = weight.div_(largest).mul_(LARGEST).round_().to(torch.int8)
    return IntegerTensor(values, exponent_of(float(largest)))
