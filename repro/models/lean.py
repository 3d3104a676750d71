"""Layers whose forward pass alone takes no memory but their input and their output.

A forward pass is alone if autograd keeps nothing of it. Layers then overwrite their input where
that saves memory: in a network no other layer reads it.
"""

import torch
from torch import Tensor, nn


def forward_only(*tensors: Tensor | None) -> bool:
    """Return whether nothing computed from ``tensors`` will have a gradient."""
    if not torch.is_grad_enabled():
        return True
    return not any(tensor is not None and tensor.requires_grad for tensor in tensors)


class ReLU(nn.ReLU):
    """``nn.ReLU`` that overwrites its input in a forward pass alone.

    Under autograd the result is kept in any case and the input is not; to overwrite it would save
    nothing, and cost a copy of the gradient where the input is a view.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return max(0, x) of each entry."""
        if forward_only(features):
            return features.relu_()
        return super().forward(features)


class Conv2d(nn.Conv2d):
    """``nn.Conv2d``; a forward pass alone by oneDNN has the channels innermost in memory.

    With channels outermost oneDNN computes in blocks of 8 or 16 channels and copies: LeNet-5's
    first layer, of 6, then takes 2.7 times its output beside it. The results differ by the order of
    sums, at most. The backward pass is leaner the other way.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return [B, C', H', W'] of ``features`` [B, C, H, W]."""
        weight: Tensor = self.weight
        onednn = features.device.type == "cpu" and torch.backends.mkldnn.enabled
        if onednn and forward_only(features, weight, self.bias):
            weight = channels_innermost(weight)  # it decides the layout of the others, too
        output: Tensor = self._conv_forward(features, weight, self.bias)
        return output


def channels_innermost(x: Tensor) -> Tensor:
    """Return ``x`` [N, C, H, W] with the strides of [N, H, W, C]; a copy if it has others.

    PyTorch tells the layout by the stride of the channels. That of a single channel is anything,
    and ``torch.channels_last`` leaves it as it is; here it becomes 1.
    """
    _, channels, height, width = x.shape
    if channels > 1:
        return x.contiguous(memory_format=torch.channels_last)
    return x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))


class MaxPool2x2(nn.MaxPool2d):
    """Maximum over windows of 2x2, without overlap: ``nn.MaxPool2d(2)``, number for number.

    PyTorch's kernel finds the places of the maxima too, as int64, which only a backward pass needs.
    A forward pass alone takes the elementwise maximum of the four strided slices instead, and
    overwrites its input with those of rows.
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
