"""The two kinds of integer layers, and the layout of their values.

Values are kept with the features first and the batch last: images are [C, H, W, B], point clouds
[F, N, B], features [F, B]. A layer with weights is then one matrix product W @ x whatever its kind,
nothing is ever transposed between layers, and the slices of a convolution or a pooling window are
long contiguous runs.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from repro.integer.matmul import matmul
from repro.integer.scratch import Scratch
from repro.integer.tensor import IntegerTensor


class Weighted(ABC):
    """A layer with weights: it turns int8 into accumulators, which are then shifted to int8."""

    def __init__(self, weight: IntegerTensor) -> None:
        """Take the weight, outputs first, without -128 among its values."""
        self.weight = weight

    @property
    def matrix(self) -> Tensor:
        """The weight as int8 [outputs, inputs of one output]."""
        return self.weight.values.flatten(1)

    @abstractmethod
    def columns(self, x: Tensor, scratch: Scratch) -> Tensor:
        """Return what the weight matrix multiplies: int8 [inputs of one output, positions].

        They may lie in ``scratch``.
        """

    @abstractmethod
    def output_shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of the output for an input like ``x``."""

    @abstractmethod
    def input_error(self, error: Tensor, scratch: Scratch) -> Tensor:
        """Return accumulators like the input from an int8 error like the output."""

    def accumulate(self, x: Tensor, scratch: Scratch) -> Tensor:
        """Return accumulators like the output from an int8 input."""
        return matmul(self.matrix, self.columns(x, scratch)).view(self.output_shape(x))

    def weight_gradient(self, x: Tensor, error: Tensor, scratch: Scratch) -> Tensor:
        """Return accumulators like the weight, summed over positions and batch.

        The long operand comes first: oneDNN shares the rows of the first among threads.
        """
        gradient = matmul(self.columns(x, scratch), error.flatten(1).t())
        return gradient.t().reshape(self.weight.values.shape)


class Selecting(ABC):
    """A layer without weights whose outputs are inputs, or zero: the exponent stays.

    ``forward`` takes integers of any width, and commutes with every function that never decreases
    and keeps zero.
    """

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""

    @abstractmethod
    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:
        """Return the error of the input ``x`` from that of the output ``y``; all int8."""


class Flatten(Selecting):
    """[C, H, W, B] to [C H W, B], in the order of ``torch.nn.Flatten``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a view."""
        return x.flatten(0, -2)

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:  # noqa: ARG002
        """Return a view."""
        return error.view_as(x)


Layer = Weighted | Selecting
