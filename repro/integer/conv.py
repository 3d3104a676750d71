"""Convolutions of stride 1, as matrix products of shifted copies."""

from torch import Tensor
from torch.nn.functional import pad

from repro.integer.layers import Weighted
from repro.integer.matmul import matmul
from repro.integer.tensor import IntegerTensor


class Conv2d(Weighted):
    """A square convolution: weight [out, in, k, k], x [in, H, W, B]; stride 1, no bias."""

    def __init__(self, weight: IntegerTensor, padding: int) -> None:
        """Take the weight and the zeros added on each side, fewer than k."""
        super().__init__(weight)
        self.padding = padding

    @property
    def kernel(self) -> int:
        """The side k of the kernel."""
        return self.weight.values.shape[-1]

    def columns(self, x: Tensor) -> Tensor:
        """Return the k x k windows of x, [in k k, H' W' B]."""
        return windows(x, self.kernel, self.padding)

    def output_shape(self, x: Tensor) -> tuple[int, ...]:
        """Return [out, H', W', B]."""
        grow = 2 * self.padding - self.kernel + 1
        height, width, batch = x.shape[1:]
        return (self.weight.values.shape[0], height + grow, width + grow, batch)

    def input_error(self, error: Tensor) -> Tensor:
        """Return the full correlation of the error with the weight turned by 180 degrees."""
        turned = self.weight.values.flip(2, 3).transpose(0, 1).flatten(1)
        padding = self.kernel - 1 - self.padding
        product = matmul(turned, windows(error, self.kernel, padding))
        shrink = 2 * self.padding - self.kernel + 1
        height, width, batch = error.shape[1:]
        return product.view(-1, height - shrink, width - shrink, batch)


def windows(x: Tensor, kernel: int, padding: int) -> Tensor:
    """Return all windows of x [C, H, W, B] as columns: [C k k, H' W' B], in one copy.

    PyTorch's own im2col has no int8 kernel on the host.
    """
    padded = pad(x, (0, 0, padding, padding, padding, padding)) if padding else x
    shifted = padded.unfold(1, kernel, 1).unfold(2, kernel, 1)  # [C, H', W', B, k, k]
    ordered = shifted.permute(0, 4, 5, 1, 2, 3)  # [C, k, k, H', W', B]
    return ordered.contiguous().view(x.shape[0] * kernel * kernel, -1)
