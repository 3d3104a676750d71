"""The form of all point-cloud sets: four arrays, 1,024 points a shape, zero centroid, radius 1."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.core.progress import progress
from repro.core.validation import CLOUD_POINTS
from repro.data.base import ArraySpec, Value

SPLITS = ("train", "test")

Shape = TypeVar("Shape")


def cloud_specs(
    train: int, test: int, hashes: Sequence[str | None] = (None, None, None, None)
) -> dict[str, ArraySpec]:
    """Return the specifications of ``train`` and ``test`` clouds and their labels.

    Args:
        train: number of shapes in the training split.
        test: number of shapes in the test split.
        hashes: SHA-256 of the training points and labels, then of the test points and labels.
    """
    specs = {}
    for split, count, pair in zip(SPLITS, (train, test), (hashes[:2], hashes[2:]), strict=True):
        specs[f"{split}_points"] = ArraySpec((count, CLOUD_POINTS, 3), "<f4", pair[0])
        specs[f"{split}_labels"] = ArraySpec((count,), "|u1", pair[1])
    return specs


def make_clouds(
    split: str,
    shapes: Sequence[tuple[Shape, int]],
    sample: Callable[[Shape, int], NDArray[np.float32]],
) -> dict[str, Value]:
    """Return the points and labels of one split.

    Args:
        split: ``train`` or ``test``.
        shapes: each shape and its label.
        sample: returns the cloud [1024, 3] of a shape from the shape and its index in the split.

    Raises:
        BadContentError: ``sample`` raised it.
    """
    points = np.empty((len(shapes), CLOUD_POINTS, 3), np.float32)
    with progress(f"{split} clouds", len(shapes)) as advance:
        for index, (shape, _) in enumerate(shapes):
            points[index] = sample(shape, index)
            advance("sampled")
    labels = np.array([label for _, label in shapes], np.uint8)
    return {f"{split}_points": points, f"{split}_labels": labels}
