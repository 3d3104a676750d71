"""From an accumulator to int8: a right shift by k with one of NITI's roundings.

All roundings treat sign and magnitude separately. For an accumulator a, a shift k and
s = sign(a)::

    q = floor(|a| / 2^k)        f = |a| - q 2^k, from 0 to 2^k - 1

so that s q is a / 2^k truncated toward zero. This is the result of ``//`` in NITI's version of
torch (1.6 and 1.7; docs/integer.md describes the effect of today's flooring ``//``).

Every function takes an int32 or int64 tensor of any shape, at most
``repro.integer.matmul.INT32_LIMIT`` in magnitude if it is int32, and a k from 1 to 31, and returns
int8 from -127 to 127. ``pseudo_stochastic`` also takes int8 from -127 to 127 and a k from 1 to 7.
Divisions are shifts and comparisons are sign bits, so each operation has an exact counterpart in
C++ and runs on whole vectors.
"""

import torch
from torch import Tensor

from repro.integer.limits import LARGEST as LARGEST
from repro.integer.limits import MAGNITUDE_BITS as MAGNITUDE_BITS


def magnitude_range(largest: int) -> int:
    """Return R = ceil(log2 m) of the largest magnitude m, and 0 for m = 0.

    Since R(2^k) = k, the magnitude 128 counts as 7 bits and is not shifted. NITI computes the
    logarithm in float32, which gives R one too small for a few m just above a power of two, from
    2^21 + 1 on. This function is exact.
    """
    return (largest - 1).bit_length() if largest > 0 else 0


def largest_magnitude(accumulator: Tensor) -> int:
    """Return max |a| over all entries, 0 if there are none."""
    if accumulator.numel() == 0:
        return 0
    # not abs(), which wraps the smallest integer and copies the tensor
    low, high = torch.aminmax(accumulator)
    return max(-int(low), int(high))


def nearest(accumulator: Tensor, k: int) -> Tensor:
    """N(a, k): round to the nearest, halves away from zero (NITI v2, RoundShift).

    It equals clip(floor((floor((a - [a < 0]) / 2^(k-1)) + 1) / 2)), which needs no magnitude and
    cannot overflow int32. It is non-decreasing in a, so it commutes with ReLU and maxima.
    """
    shifted = accumulator >> _sign_bit(accumulator)  # -1 for negative a, else 0
    shifted.add_(accumulator).bitwise_right_shift_(k - 1).add_(1).bitwise_right_shift_(1)
    return shifted.clamp_(-LARGEST, LARGEST).to(torch.int8)


def pseudo_stochastic(accumulator: Tensor, k: int) -> Tensor:
    """P(a, k): compare the upper half of the discarded bits with the lower half as a random number.

    With h = floor(k/2): hi = floor(f / 2^h), lo = f mod 2^h, doubled if k is odd so that both have
    as many bits; clip(s (q + [hi > lo])). (NITI v2, PseudoStoShift.) Deterministic; k = 1 always
    rounds away from zero, and an even k is biased toward zero, by at most an eighth of a unit.
    """
    sign, magnitude = _split(accumulator)
    low_bits = k // 2
    low = magnitude & ((1 << low_bits) - 1)
    if k % 2:
        low <<= 1
    discarded = magnitude & ((1 << k) - 1)
    magnitude >>= k
    low -= discarded.bitwise_right_shift_(low_bits)  # negative where hi > lo
    return _join(sign, magnitude.sub_(low.bitwise_right_shift_(_sign_bit(low))))


def stochastic(accumulator: Tensor, k: int, draws: Tensor) -> Tensor:
    """S(a, k): clip(s (q + [f > u])), whose mean is a / 2^k.

    Args:
        accumulator: int32 or int64.
        k: the shift.
        draws: u, uniform whole numbers from 0 to 2^k - 1, with the accumulator's shape and type.
    """
    sign, magnitude = _split(accumulator)
    discarded = magnitude & ((1 << k) - 1)
    up = (draws - discarded).bitwise_right_shift_(_sign_bit(discarded))  # -1 where f > u
    return _join(sign, (magnitude >> k).sub_(up))


def _sign_bit(tensor: Tensor) -> int:
    return 8 * tensor.element_size() - 1


def _split(accumulator: Tensor) -> tuple[Tensor, Tensor]:
    """Return -1 or 0 for the sign, and the magnitude, of each entry."""
    sign = accumulator >> _sign_bit(accumulator)
    return sign, (accumulator ^ sign).sub_(sign)


def _join(sign: Tensor, magnitude: Tensor) -> Tensor:
    """Return sign times clipped magnitude as int8; ``magnitude`` is overwritten."""
    return magnitude.clamp_(max=LARGEST).bitwise_xor_(sign).sub_(sign).to(torch.int8)
