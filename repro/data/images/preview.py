"""Pictures of image sets, some images of each class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from repro.data.base import Array
from repro.data.images.labelled import CLASS_NAMES

_ROWS = 4


def draw_images(name: str, content: Mapping[str, Any]) -> Figure:
    """Return a picture of the first training images of each class.

    Args:
        name: the set's name; one that starts with ``rotated_`` has a row for each angle in turn.
        content: the set's arrays; ``train_labels`` and every ``train_images`` are used.
    """
    classes = CLASS_NAMES[name.removeprefix("rotated_")]
    views = [content[key] for key in content if key.startswith("train_images")]
    grid = _grid(views, content["train_labels"], len(classes))
    rows, columns = grid.shape[0] // 28, len(classes)
    figure = Figure(figsize=(0.75 * columns, 0.75 * rows + 0.3))
    axes = figure.add_axes((0, 0, 1, 0.75 * rows / (0.75 * rows + 0.3)))
    axes.imshow(grid, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()
    for column, label in enumerate(classes):
        axes.text(28 * column + 13.5, -3, label, ha="center", va="bottom", fontsize=7)
    return figure


def _grid(views: list[Array], labels: Array, classes: int) -> Array:
    """Return one image: a column for each class, the views of an image one below the other."""
    columns = []
    for number in range(classes):
        chosen = np.flatnonzero(labels == number)[: _ROWS // len(views)]
        columns.append(np.concatenate([view[index] for index in chosen for view in views]))
    return np.concatenate(columns, axis=1)
