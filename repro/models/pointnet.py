"""PointNet as the ElasticZO paper trains it (arXiv 2501.04287, section 5.1.1).

Qi et al., "PointNet: Deep Learning on Point Sets" (2017), the classification network without its
input and feature transform nets, and with batch norm in the part shared by all points only.
"""

from collections import OrderedDict
from itertools import pairwise

import torch
from torch import nn

_POINT_WIDTHS = (3, 64, 64, 64, 128, 1024)
_HEAD_WIDTHS = (1024, 512, 256)


def pointnet(*, classes: int = 40) -> nn.Sequential:
    """Return PointNet for clouds [B, N, 3] of any N; its output are logits [B, classes].

    Layers are named; a partition point is a slice, as in ``model[:index]`` and ``model[index:]``.

    Args:
        classes: number of outputs; 40 give 818,088 parameters.
    """
    layers: list[tuple[str, nn.Module]] = []
    for number, (fan_in, width) in enumerate(pairwise(_POINT_WIDTHS), start=1):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, N, width]
            (f"bn{number}", PointBatchNorm(width)),
            (f"relu{number}", nn.ReLU()),
        ]
    layers.append(("max", MaxOverPoints()))  # [B, 1024]
    for number, (fan_in, width) in enumerate(pairwise(_HEAD_WIDTHS), start=len(_POINT_WIDTHS)):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, width]
            (f"relu{number}", nn.ReLU()),
        ]
    layers.append(("fc8", nn.Linear(_HEAD_WIDTHS[-1], classes)))
    return nn.Sequential(OrderedDict(layers))


class PointBatchNorm(nn.BatchNorm1d):
    """Batch norm of features [B, N, C] over all points of all clouds."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the normalised features, [B, N, C]."""
        normalised: torch.Tensor = super().forward(features.flatten(0, 1))
        return normalised.view_as(features)


class MaxOverPoints(nn.Module):
    """The symmetric function that makes the network blind to the order of points."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the greatest of each feature, [B, C], of ``features`` [B, N, C]."""
        return features.max(dim=1).values
