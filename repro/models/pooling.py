"""Max pooling that is quick, and takes no memory but its output, where no gradient is needed."""

import torch
from torch import nn

from repro.models.forward_only import forward_only


class MaxPool2x2(nn.MaxPool2d):
    """Maximum over windows of 2x2, without overlap: ``nn.MaxPool2d(2)``, number for number.

    PyTorch's kernel finds the places of the maxima too, as int64, which only a backward pass needs.
    A forward pass alone takes the elementwise maximum of the four strided slices instead, and
    overwrites its input with those of rows.
    """

    def __init__(self) -> None:
        super().__init__(kernel_size=2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the maxima, [..., H // 2, W // 2], of ``features`` [..., H, W]."""
        if not forward_only(features):
            pooled: torch.Tensor = super().forward(features)
            return pooled
        height, width = features.shape[-2:]
        if height % 2 or width % 2:
            features = features[..., : height // 2 * 2, : width // 2 * 2]
        upper, lower = features[..., ::2, :], features[..., 1::2, :]
        rows = torch.maximum(upper, lower, out=upper)
        return torch.maximum(rows[..., ::2], rows[..., 1::2])
