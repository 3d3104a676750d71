"""The ternary gradient g: the sign of the difference of two losses (ElasticZO, section 4.3).

There are three rules for computing it:

- ``float``: the cross-entropy of the dequantised logits (the paper's INT8);
- ``integer``: equations 6 to 12, with powers of two and floor(log2) (the paper's INT8*);
- ``exact``: the same powers of two without the floor, compared as whole numbers of any length. Its
  differences from ``integer`` show the cost of the floor, its differences from ``float`` the cost
  of the powers of two.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.core.names import SignRule
from repro.integer.loss import float_cross_entropy, powers_of_two
from repro.integer.tensor import IntegerTensor

_RESCALING = 24  # most bits by which mantissas are widened; beyond, the exponent is kept


@dataclass(frozen=True)
class PowerLoss:
    """The cross-entropy of each sample with powers of two (ElasticZO, equations 8 to 11).

    For a sample with label y and exponents p from ``powers_of_two``, the loss in bits is
    log2(sum_j 2^(p_j)) - p_y.
    """

    sums: Tensor
    """sum_j 2^(p_j), int64 [B], at least 2^10."""
    label_powers: Tensor
    """p_y, int64 [B], from 0 to 10."""

    @classmethod
    def of(cls, logits: IntegerTensor, labels: Tensor, common: int | None = None) -> "PowerLoss":
        """Return the loss of ``logits`` [B, classes] for ``labels``, int64 [B].

        Args:
            logits: mantissas m and exponent s.
            labels: classes.
            common: an exponent of at most s to which the mantissas are first rescaled (equation 7),
                as m 2^(s - common) in units of 2^common. By default s itself.
        """
        widening = 0 if common is None else min(logits.exponent - common, _RESCALING)
        values = logits.values.to(torch.int64) << widening
        p = powers_of_two(values, logits.exponent - widening)
        return cls((1 << p).sum(1), p.gather(1, labels.unsqueeze(1)).squeeze(1))

    def floored(self) -> int:
        """Return the sum over the batch with floor(log2), in bits (equation 12).

        The floor is the position of the highest set bit, found by comparing with powers of two.
        """
        powers = 1 << torch.arange(63, dtype=torch.int64, device=self.sums.device)
        # log2 would need floating point, which a step of INT8* does without
        floors = torch.bucketize(self.sums, powers, right=True) - 1
        return int((floors - self.label_powers).sum())

    def exact(self) -> tuple[int, int]:
        """Return (N, d) such that log2 N - d is the sum over the batch without the floor."""
        return math.prod(self.sums.tolist()), int(self.label_powers.sum())


@dataclass(frozen=True)
class LossComparison:
    """Two passes over one batch, and the mean loss of each in nats as the rule measures it."""

    sign: int
    """g: 1 if the first pass has the greater loss, -1 if the second has, 0 if they are equal."""
    loss_plus: float
    loss_minus: float


def compare(
    rule: SignRule, plus: IntegerTensor, minus: IntegerTensor, labels: Tensor
) -> LossComparison:
    """Compare the losses of two passes.

    Args:
        rule: how to compare; only ``float`` uses a floating-point tensor.
        plus: logits [B, classes] of one pass.
        minus: logits [B, classes] of the other.
        labels: classes, int64 [B].
    """
    if rule == "float":
        losses = mean_loss(rule, plus, labels), mean_loss(rule, minus, labels)
        return LossComparison(_order(*losses), *losses)
    common = min(plus.exponent, minus.exponent)
    passes = [PowerLoss.of(logits, labels, common) for logits in (plus, minus)]
    if rule == "integer":
        sign = _order(*(loss.floored() for loss in passes))
    else:
        (n_plus, d_plus), (n_minus, d_minus) = (loss.exact() for loss in passes)
        # N / 2^d of both passes, times 2^(d_plus + d_minus), so that no division rounds
        sign = _order(n_plus << d_minus, n_minus << d_plus)
    plus_nats, minus_nats = (_nats(rule, loss) for loss in passes)
    return LossComparison(sign, plus_nats, minus_nats)


def mean_loss(rule: SignRule, logits: IntegerTensor, labels: Tensor) -> float:
    """Return the mean loss of a pass, in nats, as ``rule`` measures it."""
    if rule == "float":
        return float(float_cross_entropy(logits, labels).mean())
    return _nats(rule, PowerLoss.of(logits, labels))


def _order(first: float, second: float) -> int:
    return (first > second) - (first < second)


def _nats(rule: SignRule, loss: PowerLoss) -> float:
    if rule == "integer":
        bits: float = loss.floored()
    else:
        number, shift = loss.exact()
        bits = math.log2(number) - shift
    return bits * math.log(2) / len(loss.sums)
