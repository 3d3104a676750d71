"""Move the weights through one step: to theta + z, to theta - z, back, and the update.

Algorithm 2 moves the weights in place by +z, -2z and +z, each time clipped to +-127. If one of the
first two moves is clipped, the third does not restore the weight: it ends nearer to zero by the
clipped part. This is the paper's behaviour and the default. Such weights are counted; ``exact``
restores them.

Ctrl-C waits for the end of a pass. Within a pass it would leave some weights moved and others not,
with no way to tell which.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise

import torch
from torch import Tensor

from repro.core.signals import uninterrupted
from repro.integer.noise import IntegerNoise
from repro.integer.rounding import LARGEST, largest_magnitude, magnitude_range
from repro.integer.shift import gradient


class Perturbation:
    """Moves flat int8 weights, in place, along one noise vector."""

    def __init__(
        self, weights: Tensor, sizes: Sequence[int], noise: IntegerNoise, *, exact: bool
    ) -> None:
        """Take the weights at theta.

        Args:
            weights: int8 [P], contiguous.
            sizes: elements of each layer's weight, P in all; the update is rounded layer by layer.
            noise: z.
            exact: whether theta is restored bit by bit, at the price of a copy of the weights (P
                bytes) for the duration of the step.
        """
        self.clipped = 0
        """Number of weights whose move to theta + z or theta - z was clipped. Without ``exact``
        these weights are not restored. No weight is counted twice, because two clips would require
        |z| > 127."""
        self._weights = weights
        self._bounds = [0, *accumulate(sizes)]
        self._noise = noise
        self._largest = [0] * len(sizes)  # max |z| of each layer, found during the first pass
        self._saved = weights.clone() if exact else None
        self._offset = 0

    def plus(self) -> None:
        """Move from theta to clip(theta + z)."""
        with uninterrupted():
            self._move(1)
            self._offset = 1

    def minus(self) -> None:
        """Move to clip(clip(theta + z) - 2z); with ``exact``, to clip(theta - z)."""
        with uninterrupted():
            self._move(self._rewound(-2))
            self._offset = -1

    def restore(self) -> None:
        """Move back to theta, as far as the clips allow, from any stage of the step.

        After an update there is nothing to restore, so nothing is done.
        """
        with uninterrupted():
            if self._saved is not None:
                self._weights.copy_(self._saved)
            elif self._offset:
                self._move(-self._offset, count=False)
            self._offset = 0

    def restore_and_descend(self, g: int, bits: int) -> None:
        """Do the restore and the update (Algorithm 2, lines 10 and 11) in one pass.

        theta <- clip(theta - round(g z)); g z is rounded to ``bits`` bits layer by layer, like a
        gradient.

        Args:
            g: -1, 0 or 1.
            bits: b_ZO.
        """
        if g == 0:
            self.restore()
            return
        with uninterrupted():
            self._descend(self._rewound(-self._offset), g, bits)
            self._offset = 0
            self._saved = None  # a later restore() must not undo the update

    def _descend(self, back: int, g: int, bits: int) -> None:
        """Set the weights to clip(clip(weights + back z) - round(g z))."""
        for start, z in self._noise.chunks(len(self._weights), self._weights.device):
            part = self._weights[start : start + len(z)]
            slope = z.to(torch.int8).mul_(g)
            moved = z.mul_(back).add_(part).clamp_(-LARGEST, LARGEST)
            for low, high, largest in self._spans(start, start + len(z)):
                moved[low:high].sub_(gradient(slope[low:high], bits, largest))
            part.copy_(moved.clamp_(-LARGEST, LARGEST))

    def _rewound(self, factor: int) -> int:
        """Copy theta back if it was saved; return the factor of z that is still to be added."""
        if self._saved is None:
            return factor
        self._weights.copy_(self._saved)
        return factor + self._offset

    def _move(self, factor: int, *, count: bool = True) -> None:
        """Set the weights to clip(weights + factor z)."""
        for start, z in self._noise.chunks(len(self._weights), self._weights.device):
            if self._offset == 0:
                for layer, low, high in self._layers(start, start + len(z)):
                    # no entry exceeds r_max, so the search may end there
                    if self._largest[layer] < self._noise.r_max:
                        largest = max(self._largest[layer], largest_magnitude(z[low:high]))
                        self._largest[layer] = largest
            part = self._weights[start : start + len(z)]
            moved = (z if factor == 1 else z.mul_(factor)).add_(part)
            clipped = moved.clamp(-LARGEST, LARGEST)
            part.copy_(clipped)
            if count:
                self.clipped += int(torch.count_nonzero(moved.sub_(clipped)))

    def _layers(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (layer, low, high) of all layers in [start, stop), counted from ``start``."""
        for layer, (first, last) in enumerate(pairwise(self._bounds)):
            low, high = max(first, start), min(last, stop)
            if low < high:
                yield layer, low - start, high - start

    def _spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (low, high, largest) of each layer, merging neighbours of the same range R."""
        layers = self._layers(start, stop)
        for _, group in groupby(layers, lambda span: magnitude_range(self._largest[span[0]])):
            spans = list(group)
            yield spans[0][1], spans[-1][2], self._largest[spans[0][0]]
