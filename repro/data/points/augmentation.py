"""Random changes of point clouds during training, as in the code of PointNet's authors.

Qi et al., "PointNet" (2017): each cloud is rotated about the vertical axis by its own random angle,
and clipped Gaussian noise is added to each coordinate. The paper gives the noise a standard
deviation of 0.02. This module follows the authors' code, which uses 0.01 and clips the noise at
0.05.
"""

import math

import torch
from torch import Tensor

JITTER = 0.01
"""Standard deviation of the noise, for clouds of radius 1."""
JITTER_LIMIT = 0.05
"""Largest magnitude of the noise."""


def augment(clouds: Tensor, generator: torch.Generator, vertical: int) -> Tensor:
    """Return copies of ``clouds``, rotated, jittered and with their points in random order.

    The order of points changes PointNet's results only by rounding.

    Args:
        clouds: float32 [B, N, 3].
        generator: source of all random numbers, on the device of ``clouds``.
        vertical: the coordinate that points upwards: 0, 1 or 2.
    """
    return shuffle_points(jitter(turn(clouds, generator, vertical), generator), generator)


def turn(clouds: Tensor, generator: torch.Generator, vertical: int) -> Tensor:
    """Rotate each cloud [N, 3] of a batch about the vertical axis by a uniformly random angle."""
    angles = torch.rand(len(clouds), 1, generator=generator, device=clouds.device) * (2 * math.pi)
    cosines, sines = torch.cos(angles), torch.sin(angles)
    turned = clouds.clone()
    first, second = (clouds[..., axis] for axis in range(3) if axis != vertical)
    one, other = (turned[..., axis] for axis in range(3) if axis != vertical)
    one.copy_(cosines * first - sines * second)
    other.copy_(sines * first + cosines * second)
    return turned


def jitter(clouds: Tensor, generator: torch.Generator) -> Tensor:
    """Add clipped Gaussian noise to every coordinate."""
    noise = torch.randn(clouds.shape, generator=generator, device=clouds.device)
    return noise.mul_(JITTER).clamp_(-JITTER_LIMIT, JITTER_LIMIT).add_(clouds)


def shuffle_points(clouds: Tensor, generator: torch.Generator) -> Tensor:
    """Shuffle the points of each cloud independently."""
    keys = torch.rand(clouds.shape[:2], generator=generator, device=clouds.device)
    order = keys.argsort(dim=1, stable=True)  # equal keys keep their order on every device
    return clouds.gather(1, order.unsqueeze(2).expand_as(clouds))
