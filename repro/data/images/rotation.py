"""Rotate grey images by bilinear interpolation in integers: the same bytes on every machine."""

import math

import numpy as np
import numpy.typing as npt

_ONE = 1 << 16
"""Fixed point: sines, cosines and weights in units of 2^-16."""


def rotate(images: npt.NDArray[np.uint8], degrees: float) -> npt.NDArray[np.uint8]:
    """Return ``images`` turned counter-clockwise by ``degrees`` about their centre.

    A pixel takes the bilinear mean of the four around the point it comes from, rounded half up;
    pixels outside the image are 0. The result equals that of torchvision's floating-point
    ``rotate`` with ``BILINEAR`` to within one grey level.

    Args:
        images: uint8, [N, H, W].
        degrees: angle, positive counter-clockwise.
    """
    height, width = images.shape[1:]
    rows, columns = _origins(height, width, degrees)
    row, row_weight = np.divmod(rows, _ONE)
    column, column_weight = np.divmod(columns, _ONE)
    total = np.zeros(images.shape, dtype=np.int64)
    for down, across in ((0, 0), (0, 1), (1, 0), (1, 1)):
        vertical = row_weight if down else _ONE - row_weight
        horizontal = column_weight if across else _ONE - column_weight
        total += vertical * horizontal * _pixels(images, row + down, column + across)
    return ((total + _ONE**2 // 2) // _ONE**2).astype(np.uint8)


def _origins(
    height: int, width: int, degrees: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each pixel's source row and column, [H, W] in units of 2^-16."""
    cosine = round(math.cos(math.radians(degrees)) * _ONE)
    sine = round(math.sin(math.radians(degrees)) * _ONE)
    y = 2 * np.arange(height, dtype=np.int64)[:, None] - (height - 1)  # half pixels from the centre
    x = 2 * np.arange(width, dtype=np.int64)[None, :] - (width - 1)
    rows = (sine * x + cosine * y + (height - 1) * _ONE) // 2
    columns = (cosine * x - sine * y + (width - 1) * _ONE) // 2
    return rows, columns


def _pixels(
    images: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    height, width = images.shape[1:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    taken = images[:, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.where(inside, taken, 0).astype(np.int64)
