"""The sparse integer perturbation of Algorithm 2, regenerated from a key and never stored.

Element i of z, counted through all perturbed weights in the order of the layers, comes from word w
of ``repro.integer.counter`` with counter i::

    keep = (w mod 2^16) < round((1 - p_zero) 2^16)
    u    = floor((h (2 r_max + 1) + 2^15) / 2^16),  h = floor(w / 2^16) - 2^16 [w >= 2^31]
    z    = u if keep else 0

h is the upper half of w as a signed number. Each u from -r_max to r_max has a probability within
2^-16 of 1 / (2 r_max + 1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.integer.counter import mix_, signed
from repro.integer.limits import check_p_zero, check_r_max

CHUNK = 1 << 16
"""Elements drawn at a time. Their two int32 buffers of 256 KiB are freed before z is used, so that
LeNet-5 takes more memory in its forward pass, even at a batch of 32. Smaller chunks are slower,
since each calls some thirty operators."""
MOST_ELEMENTS = 1 << 32
"""Counters are 32 bits wide."""


@dataclass(frozen=True)
class IntegerNoise:
    """z = mask * u, as a function of its key."""

    key: int
    """64 bits (``repro.integer.counter.stream_key``)."""
    r_max: int
    """Kept entries are uniform on the whole numbers from -r_max to r_max."""
    p_zero: float
    """Probability of a zero entry, in steps of 2^-16."""

    def __post_init__(self) -> None:
        check_r_max("r_max", self.r_max)
        check_p_zero("p_zero", self.p_zero)

    def chunks(self, elements: int, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """Yield (i, z[i : i + n]) until all ``elements`` are covered.

        The values are int16, which holds any weight plus or minus 2z.
        """
        if elements > MOST_ELEMENTS:
            msg = f"{elements} weights to perturb: the counter has 32 bits, at most 2^32"
            raise UsageError(msg)
        for start in range(0, elements, CHUNK):
            n = min(CHUNK, elements - start)
            yield start, self._draw(torch.arange(n, dtype=torch.int32, device=device), start)

    def _draw(self, indices: Tensor, start: int) -> Tensor:
        """Return z[start + i] for each of ``indices``, which are overwritten."""
        scratch = torch.empty_like(indices)
        x = mix_(indices.add_(signed(start + self.key)), self.key, scratch)
        # the last step of a word keeps the upper half h and turns the lower half x into x ^ h
        h = torch.bitwise_right_shift(x, 16, out=scratch)
        kept = round((1 - self.p_zero) * 65536)
        keep = x.bitwise_xor_(h).bitwise_and_(0xFFFF).sub_(kept)
        keep.bitwise_right_shift_(31)  # all ones where the entry is kept
        u = h.mul_(2 * self.r_max + 1).add_(1 << 15).bitwise_right_shift_(16)
        return keep.bitwise_and_(u).to(torch.int16)
