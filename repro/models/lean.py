"""Layers whose forward pass, without autograd, needs no memory besides input and output.

In a pass without autograd, layers overwrite their input where this saves memory. In a sequential
network no other layer reads it.
"""

import torch
from torch import Tensor, nn


def forward_only(*tensors: Tensor | None) -> bool:
    """Return whether nothing computed from ``tensors`` will have a gradient."""
    if not torch.is_grad_enabled():
        return True
    return not any(tensor is not None and tensor.requires_grad for tensor in tensors)


class LeanReLU(nn.ReLU):
    """``nn.ReLU`` that overwrites its input in a forward pass without autograd.

    Autograd keeps the result in any case but not the input, so overwriting would save nothing
    there. If the input is a view, it would even cost a copy of the gradient.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return max(0, x) of each entry."""
        if forward_only(features):
            return features.relu_()
        return super().forward(features)


class LeanConv2d(nn.Conv2d):
    """``nn.Conv2d`` with channels innermost in memory, by oneDNN and without autograd.

    With channels outermost oneDNN computes in blocks of 8 or 16 channels and copies: LeNet-5's
    first layer, with 6 channels, then needs 2.7 times its output as extra memory. The results
    differ at most by the order of sums. The backward pass needs less memory with channels
    outermost.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return [B, C', H', W'] of ``features`` [B, C, H, W]."""
        weight: Tensor = self.weight
        onednn = features.device.type == "cpu" and torch.backends.mkldnn.enabled
        if onednn and forward_only(features, weight, self.bias):
            weight = channels_innermost(weight)  # decides the layout of input and output, too
        output: Tensor = self._conv_forward(features, weight, self.bias)
        return output


def channels_innermost(x: Tensor) -> Tensor:
    """Return ``x`` [N, C, H, W] with the strides of [N, H, W, C], as a copy if it has others.

    PyTorch recognises the layout by the stride of the channels. With a single channel this stride
    is arbitrary, and ``torch.channels_last`` does not change it; here it is set to 1.
    """
    _, channels, height, width = x.shape
    if channels > 1:
        return x.contiguous(memory_format=torch.channels_last)
    return x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))


class MaxPool2x2(nn.MaxPool2d):
    """Maximum over windows of 2x2 without overlap, with the same results as ``nn.MaxPool2d(2)``.

    PyTorch's kernel also stores the indices of the maxima as int64, which only a backward pass
    needs. Without autograd, this layer takes the elementwise maximum of the four strided slices
    instead, and overwrites its input with the maxima over pairs of rows.
    """

    def __init__(self) -> None:
        super().__init__(kernel_size=2)

    def forward(self, features: Tensor) -> Tensor:
        """Return the maxima, [..., H // 2, W // 2], of ``features`` [..., H, W]."""
        if not forward_only(features):
            pooled: Tensor = super().forward(features)
            return pooled
        height, width = features.shape[-2:]
        if height % 2 or width % 2:
            features = features[..., : height // 2 * 2, : width // 2 * 2]
        upper, lower = features[..., ::2, :], features[..., 1::2, :]
        rows = torch.maximum(upper, lower, out=upper)
        return torch.maximum(rows[..., ::2], rows[..., 1::2])
