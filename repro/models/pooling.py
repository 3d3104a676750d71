"""Max pooling that is quick where no gradient is needed."""

import torch
from torch import nn


class MaxPool2x2(nn.MaxPool2d):
    """Maximum over windows of 2x2, without overlap: ``nn.MaxPool2d(2)``, number for number.

    PyTorch's kernel finds the places of the maxima too, as int64, which only a backward pass needs.
    A forward pass alone takes the elementwise maximum of the four strided slices instead.
    """

    def __init__(self) -> None:
        super().__init__(kernel_size=2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the maxima, [..., H // 2, W // 2], of ``features`` [..., H, W]."""
        if torch.is_grad_enabled() and features.requires_grad:
            pooled: torch.Tensor = super().forward(features)
            return pooled
        height, width = features.shape[-2:]
        if height % 2 or width % 2:
            features = features[..., : height // 2 * 2, : width // 2 * 2]
        rows = torch.maximum(features[..., ::2, :], features[..., 1::2, :])
        return torch.maximum(rows[..., ::2], rows[..., 1::2])
