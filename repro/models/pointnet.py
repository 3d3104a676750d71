"""PointNet as the ElasticZO paper trains it (arXiv 2501.04287, section 5.1.1).

Qi et al., "PointNet: Deep Learning on Point Sets" (2017), the classification network without its
input and feature transform nets, and with batch norm in the part shared by all points only.
"""

from collections import OrderedDict
from itertools import pairwise

import torch
from torch import nn

from repro.models.lean import LeanReLU, forward_only

_POINT_WIDTHS = (3, 64, 64, 64, 128, 1024)
_HEAD_WIDTHS = (1024, 512, 256)


def pointnet(*, classes: int = 40) -> nn.Sequential:
    """Return PointNet, which maps clouds [B, N, 3] of any N to logits [B, classes].

    Layers are named; ``model[:index]`` and ``model[index:]`` are the parts at a partition point. On
    the host a forward pass without autograd takes no more memory than the input and the output of
    one fully connected layer: batch norm and ReLU overwrite their input.

    Args:
        classes: number of outputs; with 40 there are 818,088 parameters.
    """
    layers: list[tuple[str, nn.Module]] = []
    for number, (fan_in, width) in enumerate(pairwise(_POINT_WIDTHS), start=1):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, N, width]
            (f"bn{number}", PointBatchNorm(width)),
            (f"relu{number}", LeanReLU()),
        ]
    layers.append(("max", MaxOverPoints()))  # [B, 1024]
    for number, (fan_in, width) in enumerate(pairwise(_HEAD_WIDTHS), start=len(_POINT_WIDTHS)):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, width]
            (f"relu{number}", LeanReLU()),
        ]
    layers.append(("fc8", nn.Linear(_HEAD_WIDTHS[-1], classes)))
    return nn.Sequential(OrderedDict(layers))


class PointBatchNorm(nn.BatchNorm1d):
    """Batch norm of features [B, N, C] over all points of all clouds.

    On the host a forward pass without autograd overwrites its input.
    """

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the normalised features, [B, N, C]."""
        points = features.flatten(0, 1)
        host = points.device.type == "cpu"
        if not (host and len(points) > 1 and forward_only(points, self.weight, self.bias)):
            normalised: torch.Tensor = super().forward(points)  # it refuses to train on one point
            return normalised.view_as(features)
        assert self.momentum is not None  # noqa: S101 - for the type checker: it is PyTorch's 0.1
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        # the kernel computes the statistics before it writes, and then works element by element
        torch.native_batch_norm(
            points,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            self.training,
            self.momentum,
            self.eps,
            out=(points, points.new_empty(0), points.new_empty(0)),
        )
        return points.view_as(features)  # a copy if the input was not contiguous


class MaxOverPoints(nn.Module):
    """The symmetric function that makes the network independent of the order of points."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the maximum of each feature, [B, C], over the N points of [B, N, C]."""
        if forward_only(features):
            return features.amax(dim=1)
        return features.max(dim=1).values  # among equal values, one gets the whole gradient
