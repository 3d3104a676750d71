"""The two kinds of integer layers, and all layers but the convolution.

Values are kept with the batch last: images are [H, C, W, B], point clouds [F, N, B], features
[F, B]. Any layer with weights then consists of matrix products W @ x, nothing is transposed before
the features, and the rows of a convolution or a pooling window are long contiguous runs.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from repro.integer.matmul import matmul
from repro.integer.tensor import IntegerTensor


class Weighted(ABC):
    """A layer with weights: it maps int8 to accumulators, which are then shifted to int8."""

    axes: ClassVar[tuple[int, ...]]
    """Possible numbers of axes of its input."""
    smallest = 1
    """Least height and width of an image."""

    def __init__(self, weight: IntegerTensor) -> None:
        """Take the weight, outputs first; its values must not include -128."""
        self.weight = weight

    def __repr__(self) -> str:
        """Show the sizes of the weight and all settings."""
        sizes = {"weight": tuple(self.weight.values.shape)}
        return f"{type(self).__name__}({vars(self) | sizes})"

    @abstractmethod
    def accumulate(self, x: Tensor) -> Tensor:
        """Return the output for an int8 input, as accumulators."""

    @abstractmethod
    def weight_gradient(self, x: Tensor, error: Tensor) -> Tensor:
        """Return the weight gradient, summed over positions and batch, as accumulators."""

    @abstractmethod
    def input_error(self, error: Tensor) -> Tensor:
        """Return the error of the input for an int8 error of the output, as accumulators."""


class Selecting(ABC):
    """A layer without weights whose outputs are inputs or zero, so the exponent does not change.

    ``forward`` takes integers of any width, and commutes with every non-decreasing function that
    maps zero to zero.
    """

    axes: ClassVar[tuple[int, ...]] = (2, 3, 4)
    """Possible numbers of axes of its input."""
    smallest = 1
    """Least height and width of an image."""

    def __repr__(self) -> str:
        """Show all settings."""
        return f"{type(self).__name__}({vars(self)})"

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""

    @abstractmethod
    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:
        """Return the error of the input ``x``, given the error of the output ``y``; all int8."""


class IntegerReLU(Selecting):
    """max(x, 0), the exponent unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the positive part."""
        return x.clamp(min=0)

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:  # noqa: ARG002
        """Return the error where x > 0, strictly, and zero elsewhere (v2, ReLU.backward)."""
        return error * (y > 0)


class IntegerFlatten(Selecting):
    """[H, C, W, B] to [C H W, B], in the order of ``torch.nn.Flatten``; [F, B] stays as it is."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, channel by channel."""
        return x if x.dim() == 2 else x.transpose(0, 1).flatten(0, -2)

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:  # noqa: ARG002
        """Return the images, row by row."""
        if x.dim() == 2:
            return error
        return error.view_as(x.transpose(0, 1)).transpose(0, 1).contiguous()


Layer = Weighted | Selecting


class IntegerLinear(Weighted):
    """y = W x for a weight [out, in] and x [in, ..., B]; no bias."""

    axes = (2, 3)

    def accumulate(self, x: Tensor) -> Tensor:
        """Return W x, [out, ..., B]."""
        product = matmul(self.weight.values, x.flatten(1))
        return product.view(-1, *x.shape[1:])

    def weight_gradient(self, x: Tensor, error: Tensor) -> Tensor:
        """Return error x^T, [out, in], summed over positions and batch.

        The long operand comes first, since oneDNN divides the rows of the first operand among
        threads.
        """
        return matmul(x.flatten(1), error.flatten(1).t()).t().contiguous()

    def input_error(self, error: Tensor) -> Tensor:
        """Return W^T error, [in, ..., B]."""
        product = matmul(self.weight.values.t(), error.flatten(1))
        return product.view(-1, *error.shape[1:])


class IntegerMaxPool2d(Selecting):
    """The maximum of each k x k window of [H, C, W, B]; windows do not overlap.

    Rows and columns that do not fill a window are left out, as in ``torch.nn.MaxPool2d``.
    """

    axes = (4,)

    def __init__(self, kernel: int) -> None:
        """Take the side of a window, which is also the stride."""
        self.kernel = self.smallest = kernel

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima, [floor(H/k), C, floor(W/k), B].

        Elementwise maxima of slices are written into one tensor. This is several times faster than
        a reduction or ``max_pool2d``, and needs no memory except the result.
        """
        entries = [entry for rows in self._slices(x, 0) for entry in self._slices(rows, 2)]
        # the last entry, so that a window of one entry gets a tensor of its own, too
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

    axes = (3,)

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
