"""Pictures of what is in a set."""

import importlib
from pathlib import Path

from repro.core.errors import UsageError
from repro.data.cache import load
from repro.data.catalog import MODULES, load_set


def draw_samples(name: str, path: Path) -> None:
    """Draw training samples of each class of the set ``name`` into an image file at ``path``.

    Raises:
        UsageError: no such set, or one that has no picture.
        ReproError: the set is not in the cache and cannot be fetched.
    """
    dataset = load_set(name)
    if "train_points" not in dataset.content:
        msg = f"{dataset.name} has no picture: only sets of images or point clouds have"
        raise UsageError(msg)
    from repro.data.points.preview import draw_clouds

    content = load(dataset.name)
    classes = importlib.import_module(MODULES[dataset.name]).CLASSES
    draw_clouds(content["train_points"], content["train_labels"], classes, path)
