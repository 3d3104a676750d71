"""NITI's integer gradient of the cross-entropy, and the cross-entropy in floating point.

NITI never computes the loss itself in integers. Exponentials become powers of two: with
47274 / 2^15 for log2 e, e^x is about 2^t for t = trunc(47274 x / 2^15).
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.integer.rounding import stochastic
from repro.integer.tensor import IntegerTensor

LOG2_E = 47274
"""log2 e in units of 2^-15, rounded."""
SPAN = 10
"""Exponents of two are clamped to at most this much below the largest."""
GRADIENT_BITS = 11
"""Before rounding, the gradient of the logits is in units of 2^-11."""
ERROR_SHIFT = 4
"""Bits of the gradient removed by rounding: errors are in units of 2^-7."""

SERIES_EXPONENT = -7
"""Exponent of the logits at or below which |x| <= 1, so that e^x is taken as 1 + x + x^2/2."""
_LEAST_EXPONENT = -20  # below it the series would overflow int64
_LARGEST_SHIFT = 30  # of a difference of at least 1, far beyond SPAN


def float_cross_entropy(logits: IntegerTensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of each sample, float64 [B], of the dequantised logits.

    It is computed in float64, so that the order of a sum does not decide the sign of a difference.
    """
    return cross_entropy(logits.dequantise(torch.float64), labels, reduction="none")


def scale(values: Tensor, exponent: int) -> Tensor:
    """Return values * 2^exponent in int64; divisions truncate toward zero.

    Left shifts are limited to 30 bits, since any difference then already exceeds ``SPAN``.
    """
    if exponent >= 0:
        return values << min(exponent, _LARGEST_SHIFT)
    # int64 holds no larger power, and far smaller ones already give 0
    return torch.div(values, 1 << min(-exponent, 62), rounding_mode="trunc")


def powers_of_two(values: Tensor, exponent: int) -> Tensor:
    """Return p, int64 from 0 to 10, so that e^(values 2^exponent) is about 2^p up to a factor.

    t = trunc(47274 values / 2^15) * 2^exponent;  p = max(t - (max_j t_j - 10), 0).

    Args:
        values: int64 [B, classes], below 2^32 in magnitude.
        exponent: their common exponent.
    """
    t = scale(torch.div(values * LOG2_E, 1 << 15, rounding_mode="trunc"), exponent)
    return (t - (t.amax(1, keepdim=True) - SPAN)).clamp_(min=0)


def logit_gradient(logits: IntegerTensor, labels: Tensor) -> Tensor:
    """Return about 2048 (softmax - one hot): int64 [B, classes] whose rows sum to zero.

    g_i = trunc(2^11 q_i / sum_j q_j), then g_y -= sum_i g_i, where q_i approximates e^(x_i):
    2^(p_i) - 1 for exponents e above -7, else 2 + 2x + x^2 in units of 2^(2e).
    """
    values = logits.values.to(torch.int64)
    if logits.exponent > SERIES_EXPONENT:
        q = (1 << powers_of_two(values, logits.exponent)) - 1
    else:
        e = max(logits.exponent, _LEAST_EXPONENT)
        q = (1 << (1 - 2 * e)) + values * (1 << (1 - e)) + values * values
    g = torch.div(q << GRADIENT_BITS, q.sum(1, keepdim=True), rounding_mode="trunc")
    return g.scatter_add_(1, labels.unsqueeze(1), -g.sum(1, keepdim=True))


def logit_error(logits: IntegerTensor, labels: Tensor, draws: Tensor) -> Tensor:
    """Return the error of the logits, int8 [B, classes], about 128 (softmax - one hot).

    Args:
        logits: [B, classes].
        labels: [B], int64.
        draws: uniform whole numbers from 0 to 15, int64, of the logits' shape; they decide the
            stochastic rounding S(g, 4).
    """
    return stochastic(logit_gradient(logits, labels), ERROR_SHIFT, draws)
