"""Minibatches of a data set held in the device's memory; images stay uint8 until used."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from repro.core.validation import require_positive_int
from repro.data.arrays import Array


def to_tensors(
    inputs: Array, labels: Array, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Return copies on ``device``: inputs in their own type, labels as int64."""
    # PyTorch warns of arrays that it may not write to, such as memory maps
    return (
        torch.from_numpy(np.array(inputs)).to(device),
        torch.from_numpy(np.array(labels, dtype=np.int64)).to(device),
    )


def batches(
    inputs: Tensor, labels: Tensor, size: int, generator: torch.Generator | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of minibatches; the last one may be smaller.

    Args:
        inputs: [N, ...].
        labels: [N], on the same device.
        size: items in a batch.
        generator: a CPU generator that draws the order, so it is the same on every device; without
            one the items keep the data set's order, as for evaluation.
    """
    require_positive_int("batch size", size)
    starts = range(0, len(inputs), size)
    if generator is None:
        yield from (
            (inputs[start : start + size], labels[start : start + size]) for start in starts
        )
        return
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    for start in starts:
        chosen = order[start : start + size]
        yield inputs[chosen], labels[chosen]


def normalise(images: Tensor, mean: float, deviation: float) -> Tensor:
    """Return grey images as the float32 input of a network.

    Args:
        images: uint8, [B, H, W].
        mean: mean of the training pixels, in units of 255.
        deviation: their standard deviation, in units of 255.

    Returns:
        float32, [B, 1, H, W], of zero mean and unit deviation over the training set.
    """
    scaled = images.unsqueeze(1).to(torch.float32)
    return scaled.sub_(255 * mean).mul_(1 / (255 * deviation))
