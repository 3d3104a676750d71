"""Draw some training samples of each class of a data set."""

import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from repro.core.atomic import replace
from repro.core.errors import UsageError
from repro.core.validation import require_choice
from repro.data.arrays import Array
from repro.data.cache import load
from repro.data.catalog import MODULES, load_set
from repro.data.images.labelled import CLASS_NAMES

FORMATS = ("png", "svg", "pdf")
_COLUMNS = 10
_ROWS = 4
"""Rows of a picture of images; a picture of clouds has as many rows as it needs."""
_POINTS = 512
"""Points drawn of each cloud, few enough to keep the file small."""


def draw_samples(name: str, path: Path) -> None:
    """Draw training samples of each class of the set ``name`` into an image file at ``path``.

    Raises:
        UsageError: the set does not exist or cannot be drawn, or the suffix of ``path`` is not one
            of ``FORMATS``.
        ReproError: the set is not in the cache and cannot be fetched, or ``path`` cannot be
            written.
    """
    form = require_choice("format of the picture", path.suffix.removeprefix("."), FORMATS)
    dataset = load_set(name)
    if "train_points" in dataset.content:
        content = load(dataset.name)
        module = importlib.import_module(MODULES[dataset.name])
        upward = getattr(module, "UPWARD", 2)
        figure = draw_clouds(
            content["train_points"], content["train_labels"], module.CLASSES, upward
        )
    elif any(key.startswith("train_images") for key in dataset.content):
        figure = draw_images(dataset.name, load(dataset.name))
    else:
        raise UsageError(f"{dataset.name} has no picture: only sets of images or point clouds have")
    picture = io.BytesIO()
    figure.savefig(picture, format=form, dpi=100)
    replace(path, picture.getvalue())


def draw_images(name: str, content: Mapping[str, Any]) -> Figure:
    """Return a picture of the first training images of each class, a column for each.

    Args:
        name: the set's name; if it starts with ``rotated_``, the rows alternate between the angles.
        content: the set's arrays; ``train_labels`` and every ``train_images`` are used.
    """
    numbers = range(int(content["train_labels"].max()) + 1)
    classes = CLASS_NAMES.get(name.removeprefix("rotated_"), [*map(str, numbers)])
    views = [content[key] for key in content if key.startswith("train_images")]
    columns = []
    for number in range(len(classes)):
        chosen = np.flatnonzero(content["train_labels"] == number)[: _ROWS // len(views)]
        columns.append(np.concatenate([view[index] for index in chosen for view in views]))
    grid = np.concatenate(columns, axis=1)
    height = 0.75 * len(grid) / 28
    figure = Figure(figsize=(0.75 * len(classes), height + 0.3))
    axes = figure.add_axes((0, 0, 1, height / (height + 0.3)))
    axes.imshow(grid, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()
    for column, label in enumerate(classes):
        axes.text(28 * column + 13.5, -3, label, ha="center", va="bottom", fontsize=7)
    return figure


def draw_clouds(points: Array, labels: Array, classes: Sequence[str], upward: int = 2) -> Figure:
    """Return a picture of the first clouds of each class.

    Args:
        points: clouds [n, N, 3] of unit radius.
        labels: class of each cloud, [n].
        classes: names of the classes.
        upward: the coordinate that points upwards.
    """
    each = max(1, 3 * _COLUMNS // len(classes))
    chosen = [i for k in range(len(classes)) for i in np.flatnonzero(labels == k)[:each]]
    rows = -(-len(chosen) // _COLUMNS)
    figure = Figure(figsize=(0.88 * _COLUMNS, 1.04 * rows), layout="constrained")
    for cell, index in enumerate(chosen, start=1):
        axes: Any = figure.add_subplot(rows, _COLUMNS, cell, projection="3d")  # untyped
        cloud = np.roll(points[index][:_POINTS], 2 - upward, axis=1)
        axes.scatter(*cloud.T, c=cloud[:, 2], s=1, linewidths=0)
        axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
        axes.set_box_aspect((1, 1, 1), zoom=1.6)
        axes.view_init(elev=20, azim=-55)
        axes.set_axis_off()
        axes.set_title(classes[labels[index]], y=-0.15, fontsize=6)
    return figure
