"""Convolutions of stride 1, as matrix products of shifted copies, a few rows at a time.

The copies of all rows would be the largest tensor of a training step, kernel^2 times the input.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.integer.layers import Weighted
from repro.integer.matmul import BLOCK, matmul
from repro.integer.tensor import IntegerTensor

_COLUMNS = 1 << 18
"""Bytes of shifted copies at a time, or one row of the output: they stay in second-level cache."""


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

    def accumulate(self, x: Tensor) -> Tensor:
        """Return the correlation of x with the weight, [out, H', W', B]."""
        return correlation(self.weight.values, x, self.padding)

    def weight_gradient(self, x: Tensor, error: Tensor) -> Tensor:
        """Return the correlation of x with the error, summed over the batch.

        The long operand comes first: oneDNN shares the rows of the first among threads.
        """
        positions = error[0].numel()
        dtype = torch.int32 if positions <= BLOCK else torch.int64
        outputs, inputs, kernel, _ = self.weight.values.shape
        total = torch.zeros(inputs * kernel * kernel, outputs, dtype=dtype, device=x.device)
        for rows, columns in windows(x, kernel, self.padding):
            total += matmul(columns, error[:, rows].flatten(1).t())
        return total.t().reshape(self.weight.values.shape)

    def input_error(self, error: Tensor) -> Tensor:
        """Return the full correlation of the error with the weight turned by 180 degrees."""
        turned = self.weight.values.flip(2, 3).transpose(0, 1)
        return correlation(turned, error, self.kernel - 1 - self.padding)


def correlation(weight: Tensor, x: Tensor, padding: int) -> Tensor:
    """Return the accumulators [out, H', W', B] of weight [out, in, k, k] and x [in, H, W, B]."""
    kernel = weight.shape[-1]
    grow = 2 * padding - kernel + 1
    _, height, width, batch = x.shape
    shape = (weight.shape[0], height + grow, width + grow, batch)
    matrix = weight.flatten(1)
    dtype = torch.int32 if matrix.shape[1] <= BLOCK else torch.int64
    accumulators = torch.empty(shape, dtype=dtype, device=x.device)
    for rows, columns in windows(x, kernel, padding):
        part = accumulators[:, rows]
        part.copy_(matmul(matrix, columns).view(part.shape))
    return accumulators


def windows(x: Tensor, kernel: int, padding: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows of the output, and the windows of x [C, H, W, B] that belong to them.

    The windows are columns, int8 [C k k, rows W' B], in one buffer that the next ones overwrite.
    PyTorch's own im2col has no int8 kernel on the host.
    """
    padded = pad(x, (0, 0, padding, padding, padding, padding)) if padding else x
    shifted = padded.unfold(1, kernel, 1).unfold(2, kernel, 1)  # [C, H', W', B, k, k]
    ordered = shifted.permute(0, 4, 5, 1, 2, 3)  # [C, k, k, H', W', B]
    height = ordered.shape[3]
    at_once = min(height, max(1, _COLUMNS * height // ordered.numel()))
    buffer = torch.empty(ordered.numel() // height * at_once, dtype=x.dtype, device=x.device)
    for start in range(0, height, at_once):
        rows = slice(start, min(start + at_once, height))
        some = ordered[:, :, :, rows]
        columns = buffer[: some.numel()].view(some.shape).copy_(some)
        yield rows, columns.view(x.shape[0] * kernel * kernel, -1)
