"""Convolutions whose forward pass needs no memory but its input and its output."""

import torch
from torch import Tensor, nn

from repro.models.forward_only import forward_only


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
