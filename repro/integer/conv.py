"""Convolutions of stride 1, as one matrix product for each row of the output.

Copies of the input, shifted along its rows, lie in a buffer row after row. The windows of a row of
the output are then k neighbouring rows of that buffer, as one matrix, and nothing is copied for the
shifts across rows. The copies of a whole input would be k times as large as it is, so they are made
for a few rows at a time.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.integer.layers import Weighted
from repro.integer.matmul import BLOCK, matmul
from repro.integer.tensor import IntegerTensor


class Conv2d(Weighted):
    """A square convolution: weight [out, in, k, k], x [H, in, W, B]; stride 1, no bias."""

    def __init__(self, weight: IntegerTensor, padding: int) -> None:
        """Take the weight and the zeros added on each side, fewer than k."""
        super().__init__(weight)
        self.padding = padding

    @property
    def kernel(self) -> int:
        """The side k of the kernel."""
        return self.weight.values.shape[-1]

    def accumulate(self, x: Tensor) -> Tensor:
        """Return the correlation of x with the weight, [H', out, W', B]."""
        return correlation(self.weight.values, x, self.padding)

    def weight_gradient(self, x: Tensor, error: Tensor) -> Tensor:
        """Return the correlation of x with the error, summed over the batch.

        The long operand comes first: oneDNN shares the rows of the first among threads.
        """
        positions = error[:, 0].numel()
        dtype = torch.int32 if positions <= BLOCK else torch.int64
        outputs, inputs, kernel, _ = self.weight.values.shape
        total = torch.zeros(kernel * inputs * kernel, outputs, dtype=dtype, device=x.device)
        for row, window in windows(x, kernel, self.padding):
            total += matmul(window, error[row].flatten(1).t())
        return total.view(kernel, inputs, kernel, outputs).permute(3, 1, 0, 2)

    def input_error(self, error: Tensor) -> Tensor:
        """Return the full correlation of the error with the weight turned by 180 degrees."""
        turned = self.weight.values.flip(2, 3).transpose(0, 1)
        return correlation(turned, error, self.kernel - 1 - self.padding)


def correlation(weight: Tensor, x: Tensor, padding: int) -> Tensor:
    """Return the accumulators [H', out, W', B] of weight [out, in, k, k] and x [H, in, W, B]."""
    outputs, _, kernel, _ = weight.shape
    grow = 2 * padding - kernel + 1
    height, _, width, batch = x.shape
    matrix = weight.transpose(1, 2).flatten(1)
    dtype = torch.int32 if matrix.shape[1] <= BLOCK else torch.int64
    shape = (height + grow, outputs, width + grow, batch)
    accumulators = torch.empty(shape, dtype=dtype, device=x.device)
    for row, window in windows(x, kernel, padding):
        matmul(matrix, window, out=accumulators[row].flatten(1))
    return accumulators


def windows(x: Tensor, kernel: int, padding: int) -> Iterator[tuple[int, Tensor]]:
    """Yield each row of the output, and the windows of x [H, C, W, B] that belong to it.

    The windows are columns, int8 [k C k, W' B], with the shift across rows first and that along
    rows last. They lie in a buffer for k rows at a time, which the next ones overwrite.
    """
    padded = pad(x, (0, 0, padding, padding, 0, 0, padding, padding)) if padding else x
    shifted = padded.unfold(2, kernel, 1).permute(0, 1, 4, 2, 3)  # [H + 2 padding, C, k, W', B]
    buffer = torch.empty(2 * kernel - 1, *shifted.shape[1:], dtype=x.dtype, device=x.device)
    matrices = buffer.view(len(buffer), shifted.shape[1] * kernel, -1)
    for first in range(0, len(shifted) - kernel + 1, kernel):
        some = shifted[first : first + len(buffer)]
        buffer[: len(some)].copy_(some)
        for row in range(len(some) - kernel + 1):
            yield first + row, matrices[row : row + kernel].flatten(0, 1)
