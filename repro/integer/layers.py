"""The two kinds of integer layers, and the memory layout of their values.

Values are kept with the batch last: images are [H, C, W, B], point clouds [F, N, B], features
[F, B]. Any layer with weights then consists of matrix products W @ x, nothing is transposed before
the features, and the rows of a convolution or a pooling window are long contiguous runs.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from repro.integer.tensor import IntegerTensor


class Weighted(ABC):
    """A layer with weights: it maps int8 to accumulators, which are then shifted to int8."""

    def __init__(self, weight: IntegerTensor) -> None:
        """Take the weight, outputs first; its values must not include -128."""
        self.weight = weight

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
