"""Convolutions of stride 1, computed as one matrix product for a few output rows at a time.

A buffer holds copies of the input, shifted along its rows, row after row. It has n + k - 1 input
rows for n output rows. The weight of such a block is a band matrix, in which each output row's
weight is one input row further on. Its zeros cost multiplications, but separate products for single
output rows are slower: they leave vector units idle, unpack each window several times, and each
ends with a wait for all threads. One product for four rows of six outputs takes half the time of
four products.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.integer.layers import Weighted
from repro.integer.matmul import BLOCK, matmul
from repro.integer.tensor import IntegerTensor

OUTPUTS = 24
"""Output rows are combined until a product has at least this many rows."""


class IntegerConv2d(Weighted):
    """A square convolution: weight [out, in, k, k], x [H, in, W, B]; stride 1, no bias."""

    axes = (4,)

    def __init__(self, weight: IntegerTensor, padding: int) -> None:
        """Take the weight and the number of zeros added on each side, fewer than k."""
        super().__init__(weight)
        self.padding = padding
        self.smallest = self.kernel - 2 * padding

    @property
    def kernel(self) -> int:
        """The side k of the kernel."""
        return self.weight.values.shape[-1]

    def accumulate(self, x: Tensor) -> Tensor:
        """Return the correlation of x with the weight, [H', out, W', B]."""
        return correlation(self.weight.values, x, self.padding)

    def weight_gradient(self, x: Tensor, error: Tensor) -> Tensor:
        """Return the correlation of x with the error, summed over the batch.

        The long operand comes first, since oneDNN divides the rows of the first operand among
        threads.
        """
        outputs, inputs, kernel, _ = self.weight.values.shape
        together = rows_together(self.weight.values)
        positions = error[:, 0].numel()
        dtype = torch.int32 if positions <= BLOCK else torch.int64
        total = torch.zeros(kernel, inputs * kernel, outputs, dtype=dtype, device=x.device)
        for rows, window in windows(x, kernel, self.padding, together):
            product = matmul(window, error[rows].flatten(0, 1).flatten(1).t())
            moved = product.view(-1, inputs * kernel, len(error[rows]), outputs)
            for row, block in enumerate(moved.unbind(2)):
                total += block[row : row + kernel]
        return total.view(kernel, inputs, kernel, outputs).permute(3, 1, 0, 2)

    def input_error(self, error: Tensor) -> Tensor:
        """Return the full correlation of the error with the weight rotated by 180 degrees."""
        turned = self.weight.values.flip(2, 3).transpose(0, 1)
        return correlation(turned, error, self.kernel - 1 - self.padding)


def correlation(weight: Tensor, x: Tensor, padding: int) -> Tensor:
    """Return the accumulators [H', out, W', B] of weight [out, in, k, k] and x [H, in, W, B]."""
    outputs, _, kernel, _ = weight.shape
    grow = 2 * padding - kernel + 1
    height, _, width, batch = x.shape
    together = rows_together(weight)
    matrix = band(weight, together)
    dtype = torch.int32 if matrix.shape[1] <= BLOCK else torch.int64
    shape = (height + grow, outputs, width + grow, batch)
    accumulators = torch.empty(shape, dtype=dtype, device=x.device)
    for rows, window in windows(x, kernel, padding, together):
        out = accumulators[rows].flatten(0, 1).flatten(1)
        matmul(matrix[: len(out), : len(window)], window, out=out)
    return accumulators


def rows_together(weight: Tensor) -> int:
    """Return the number of output rows per product: 1 if a larger product could overflow int32."""
    outputs, inputs, kernel, _ = weight.shape
    rows = -(-OUTPUTS // outputs)
    return rows if (rows + kernel - 1) * inputs * kernel <= BLOCK else 1


def band(weight: Tensor, rows: int) -> Tensor:
    """Return the matrix [rows out, (rows + k - 1) C k] from a window to ``rows`` rows of output.

    Its first n out rows and (n + k - 1) C k columns form the matrix for n output rows.
    """
    outputs, inputs, kernel, _ = weight.shape
    shape = (rows, outputs, rows + kernel - 1, inputs, kernel)
    matrix = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
    for row in range(rows):
        matrix[row, :, row : row + kernel] = weight.transpose(1, 2)
    return matrix.flatten(2).flatten(0, 1)


def windows(x: Tensor, kernel: int, padding: int, rows: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield a few output rows at a time, with the windows of x [H, C, W, B] that they need.

    The windows are columns, int8 [(n + k - 1) C k, W' B] for n <= ``rows`` rows; the input row
    varies slowest and the shift along it fastest. The next iteration overwrites their buffer.
    """
    padded = pad(x, (0, 0, padding, padding, 0, 0, padding, padding)) if padding else x
    shifted = padded.unfold(2, kernel, 1).permute(0, 1, 4, 2, 3)  # [H + 2 padding, C, k, W', B]
    height = len(shifted) - kernel + 1
    size = min(rows, height) + kernel - 1
    buffer = torch.empty(size, *shifted.shape[1:], dtype=x.dtype, device=x.device)
    for first in range(0, height, rows):
        some = shifted[first : first + size]
        buffer[: len(some)].copy_(some)
        yield (
            slice(first, first + len(some) - kernel + 1),
            buffer[: len(some)].flatten(0, 2).flatten(1),
        )
