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
    cosine = round(math.cos(math.radians(degrees)) * _ONE)
    sine = round(math.sin(math.radians(degrees)) * _ONE)
    y = 2 * np.arange(height, dtype=np.int64)[:, None] - (height - 1)  # half pixels from the centre
    x = 2 * np.arange(width, dtype=np.int64)[None, :] - (width - 1)
    # each pixel's source row and column, [H, W] in units of 2^-16
    row, row_weight = np.divmod((sine * x + cosine * y + (height - 1) * _ONE) // 2, _ONE)
    column, column_weight = np.divmod((cosine * x - sine * y + (width - 1) * _ONE) // 2, _ONE)
    total = np.zeros(images.shape, dtype=np.int64)
    for down, across in ((0, 0), (0, 1), (1, 0), (1, 1)):
        vertical = row_weight if down else _ONE - row_weight
        horizontal = column_weight if across else _ONE - column_weight
        rows, columns = row + down, column + across
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        taken = images[:, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
        total += vertical * horizontal * np.where(inside, taken, 0).astype(np.int64)
    return ((total + _ONE**2 // 2) // _ONE**2).astype(np.uint8)
