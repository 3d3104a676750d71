"""PointNet as the ElasticZO paper trains it (arXiv 2501.04287, section 5.1.1).

Qi et al., "PointNet: Deep Learning on Point Sets" (2017), the classification network without its
input and feature transform nets, and with batch norm in the part shared by all points only.
"""

from collections import OrderedDict
from itertools import pairwise

import torch
from torch import nn

from repro.models.lean import ReLU, forward_only

_POINT_WIDTHS = (3, 64, 64, 64, 128, 1024)
_HEAD_WIDTHS = (1024, 512, 256)


def pointnet(*, classes: int = 40) -> nn.Sequential:
    """Return PointNet for clouds [B, N, 3] of any N; its output are logits [B, classes].

    Layers are named; a partition point is a slice, as in ``model[:index]`` and ``model[index:]``.
    On the host a forward pass alone takes no more memory than the input and the output of one fully
    connected layer: batch norm and ReLU overwrite what they are given.

    Args:
        classes: number of outputs; 40 give 818,088 parameters.
    """
    layers: list[tuple[str, nn.Module]] = []
    for number, (fan_in, width) in enumerate(pairwise(_POINT_WIDTHS), start=1):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, N, width]
            (f"bn{number}", PointBatchNorm(width)),
            (f"relu{number}", ReLU()),
        ]
    layers.append(("max", MaxOverPoints()))  # [B, 1024]
    for number, (fan_in, width) in enumerate(pairwise(_HEAD_WIDTHS), start=len(_POINT_WIDTHS)):
        layers += [
            (f"fc{number}", nn.Linear(fan_in, width)),  # [B, width]
            (f"relu{number}", ReLU()),
        ]
    layers.append(("fc8", nn.Linear(_HEAD_WIDTHS[-1], classes)))
    return nn.Sequential(OrderedDict(layers))


class PointBatchNorm(nn.BatchNorm1d):
    """Batch norm of features [B, N, C] over all points of all clouds.

    On the host a forward pass alone overwrites its input.
    """

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the normalised features, [B, N, C]."""
        points = features.flatten(0, 1)
        if self._may_overwrite(points):
            self._normalise_(points)
            return features
        normalised: torch.Tensor = super().forward(points)
        return normalised.view_as(features)

    def _may_overwrite(self, points: torch.Tensor) -> bool:
        """Return whether no one needs the input again; to train on one point PyTorch refuses."""
        host = points.device.type == "cpu"
        return host and len(points) > 1 and forward_only(points, self.weight, self.bias)

    def _normalise_(self, points: torch.Tensor) -> None:
        """Do what ``nn.BatchNorm1d`` does, with the input as the output.

        The kernel has the statistics before it writes, and then goes element by element.
        """
        assert self.momentum is not None  # noqa: S101 - for the type checker: it is PyTorch's 0.1
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
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


class MaxOverPoints(nn.Module):
    """The symmetric function that makes the network blind to the order of points."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the greatest of each feature, [B, C], of ``features`` [B, N, C]."""
        if forward_only(features):
            return features.amax(dim=1)
        return features.max(dim=1).values  # gives the whole gradient to one of equal values
