"""Maxima over windows and over points; among equal values, the first receives the error."""

import torch
from torch import Tensor

from repro.integer.layers import Selecting


class IntegerMaxPool2d(Selecting):
    """The maximum of each k x k window of [H, C, W, B]; windows do not overlap.

    Rows and columns that do not fill a window are left out, as in ``torch.nn.MaxPool2d``.
    """

    def __init__(self, kernel: int) -> None:
        """Take the side of a window, which is also the stride."""
        self.kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima, [floor(H/k), C, floor(W/k), B].

        Elementwise maxima of slices are written into one tensor. This is several times faster than
        a reduction or ``max_pool2d``, and needs no memory except the result.
        """
        entries = [entry for rows in self._slices(x, 0) for entry in self._slices(rows, 2)]
        largest = torch.maximum(entries[0], entries[-1])
        for entry in entries[1:-1]:
            torch.maximum(largest, entry, out=largest)
        return largest

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:
        """Give each error to the first maximum of its window, row by row."""
        result = torch.zeros_like(x)
        waiting = torch.ones_like(y)  # 1 until the window's maximum is found
        for rows, targets in zip(self._slices(x, 0), self._slices(result, 0), strict=True):
            for candidate, target in zip(
                self._slices(rows, 2), self._slices(targets, 2), strict=True
            ):
                first = waiting * (candidate == y)
                waiting -= first
                target.copy_(error * first)
        return result

    def _slices(self, x: Tensor, axis: int) -> list[Tensor]:
        """Return the k views of x with every k-th entry along ``axis``, of whole windows only."""
        whole = x.shape[axis] // self.kernel * self.kernel
        first = x.transpose(0, axis)
        return [first[n : whole : self.kernel].transpose(0, axis) for n in range(self.kernel)]


class IntegerMaxOverPoints(Selecting):
    """The maximum over the points of [F, N, B], [F, B] (PointNet's symmetric function)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima."""
        return x.amax(1)

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:
        """Give each error to the first point with the maximum."""
        points = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
        absent = x.shape[1]
        numbered = torch.where(x == y.unsqueeze(1), points.view(1, -1, 1), absent)
        first = numbered.amin(1, keepdim=True).long()
        return torch.zeros_like(x).scatter_(1, first, error.unsqueeze(1))
