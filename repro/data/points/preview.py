"""Pictures of point clouds, one or more of each class."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

_COLUMNS = 10
_WIDTH, _HEIGHT = 2.2, 2.6
"""Of the cell of one cloud, in its radii; the rest of the height is for the name of its class."""
_RADIUS_INCHES = 0.4
_POINTS = 512
"""Drawn of each cloud, to keep the file small."""
_AZIMUTH, _ELEVATION = math.radians(35), math.radians(20)


def draw_clouds(
    points: NDArray[np.float32],
    labels: NDArray[np.integer],
    classes: Sequence[str],
) -> Figure:
    """Return a picture of the first clouds of each class.

    Args:
        points: clouds [n, N, 3] of unit radius, the third axis up.
        labels: class of each cloud, [n].
        classes: names of the classes.
    """
    chosen = _first_of_each_class(labels, len(classes))
    rows = -(-len(chosen) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT
    figure = Figure(figsize=(width * _RADIUS_INCHES, height * _RADIUS_INCHES))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(-height, 0), aspect="equal")
    axes.set_axis_off()
    for cell, index in enumerate(chosen):
        x, y = _WIDTH * (cell % _COLUMNS + 0.5), -_HEIGHT * (cell // _COLUMNS) - 1.1
        across, up, depth = _project(np.asarray(points[index][:_POINTS], np.float64))
        axes.scatter(x + across, y + up, c=depth, s=1, cmap="viridis", linewidths=0)
        axes.text(x, y - 1.05, classes[labels[index]], ha="center", va="top", fontsize=6)
    return figure


def _first_of_each_class(labels: NDArray[np.integer], classes: int) -> list[int]:
    each = max(1, 3 * _COLUMNS // classes)
    return [int(i) for k in range(classes) for i in np.flatnonzero(labels == k)[:each]]


def _project(
    points: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return where points appear to a distant viewer: to the right, upwards, and how near."""
    x, y, z = points.T
    sine, cosine = math.sin(_AZIMUTH), math.cos(_AZIMUTH)
    across, towards = cosine * x + sine * y, sine * x - cosine * y
    rise, fall = math.sin(_ELEVATION), math.cos(_ELEVATION)
    return across, fall * z - rise * towards, fall * towards + rise * z
