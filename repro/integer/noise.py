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

CHUNK = 27 << 10
"""Elements of z that exist at a time: int32 buffers of 108 KiB, a quarter of LeNet-5's noise and as
large as its int8 weights. Smaller chunks are slower, since each calls some thirty operators."""
MOST_ELEMENTS = 1 << 32
"""Counters are 32 bits wide."""


@dataclass(frozen=True)
class SparseNoise:
    """z = mask * u, as a function of its key."""

    key: int
    """64 bits (``repro.integer.counter.stream_key``)."""
    r_max: int
    """Kept entries are uniform on the whole numbers from -r_max to r_max."""
    p_zero: float
    """Probability of a zero entry, in steps of 2^-16."""

    def __post_init__(self) -> None:
        check_r_max(self.r_max)
        check_p_zero(self.p_zero)

    def chunks(self, elements: int, device: torch.device) -> Iterator[tuple[int, Tensor]]:
        """Yield (i, z[i : i + n]) until all ``elements`` are covered.

        The values are int32, in a buffer that the caller may overwrite and that the next chunk
        reuses.
        """
        if elements > MOST_ELEMENTS:
            msg = f"{elements} weights to perturb: the counter has 32 bits, at most 2^32"
            raise UsageError(msg)
        size = min(elements, CHUNK)
        indices = torch.arange(size, dtype=torch.int32, device=device)
        z, scratch = torch.empty_like(indices), torch.empty_like(indices)
        for start in range(0, elements, CHUNK):
            n = min(size, elements - start)
            torch.add(indices[:n], signed(start + self.key), out=z[:n])
            yield start, self._fill_(z[:n], scratch[:n])

    def _fill_(self, shifted: Tensor, scratch: Tensor) -> Tensor:
        """Replace each counter plus k0 by its z, in place."""
        x = mix_(shifted, self.key, scratch)
        # the last step of a word keeps the upper half h and turns the lower half x into x ^ h
        h = torch.bitwise_right_shift(x, 16, out=scratch)
        kept = round((1 - self.p_zero) * 65536)
        keep = x.bitwise_xor_(h).bitwise_and_(0xFFFF).sub_(kept)
        keep.bitwise_right_shift_(31)  # all ones where the entry is kept
        u = h.mul_(2 * self.r_max + 1).add_(1 << 15).bitwise_right_shift_(16)
        return keep.bitwise_and_(u)
