"""Fully connected layers, applied to features or to the features of each point."""

from torch import Tensor

from repro.integer.layers import Weighted
from repro.integer.matmul import matmul


class IntegerLinear(Weighted):
    """y = W x for a weight [out, in] and x [in, ..., B]; no bias."""

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
