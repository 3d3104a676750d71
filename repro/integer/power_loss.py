"""The cross-entropy with powers of two (ElasticZO, equations 8 to 11), in integers only.

For a sample with label y and exponents p from ``powers_of_two``, the loss in bits is
log2(sum_j 2^(p_j)) - p_y.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.integer.loss import powers_of_two
from repro.integer.tensor import IntegerTensor

_RESCALING = 24  # most bits by which mantissas are widened; beyond, the exponent is kept


@dataclass(frozen=True)
class PowerLoss:
    """The two terms of the loss of each sample in a batch."""

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
        floors = torch.bucketize(self.sums, powers, right=True) - 1
        return int((floors - self.label_powers).sum())

    def exact(self) -> tuple[int, int]:
        """Return (N, d) such that log2 N - d is the sum over the batch without the floor."""
        return math.prod(self.sums.tolist()), int(self.label_powers.sum())
