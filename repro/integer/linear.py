"""Fully connected layers, over features or over the features of each point."""

from torch import Tensor

from repro.integer.layers import Weighted
from repro.integer.matmul import matmul
from repro.integer.scratch import Scratch


class Linear(Weighted):
    """y = W x for a weight [out, in] and x [in, ..., B]; no bias."""

    def columns(self, x: Tensor, scratch: Scratch) -> Tensor:  # noqa: ARG002
        """Return x as [in, positions]."""
        return x.flatten(1)

    def output_shape(self, x: Tensor) -> tuple[int, ...]:
        """Return [out, ..., B]."""
        return (self.weight.values.shape[0], *x.shape[1:])

    def input_error(self, error: Tensor, scratch: Scratch) -> Tensor:  # noqa: ARG002
        """Return W^T error, [in, ..., B]."""
        product = matmul(self.weight.values.t(), error.flatten(1))
        return product.view(-1, *error.shape[1:])
