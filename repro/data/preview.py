"""Pictures of what is in a set."""

import importlib
import io
from pathlib import Path

from repro.core.atomic import replace
from repro.core.errors import UsageError
from repro.core.validation import require_choice
from repro.data.cache import load
from repro.data.catalog import MODULES, load_set

FORMATS = ("png", "svg", "pdf")
_DPI = 100


def draw_samples(name: str, path: Path) -> None:
    """Draw training samples of each class of the set ``name`` into an image file at ``path``.

    Raises:
        UsageError: no such set, one that has no picture, or a suffix of ``path`` that is not one
            of ``FORMATS``.
        ReproError: the set is not in the cache and cannot be fetched, or ``path`` cannot be
            written.
    """
    form = require_choice("format of the picture", path.suffix.removeprefix("."), FORMATS)
    dataset = load_set(name)
    if "train_points" in dataset.content:
        from repro.data.points.preview import draw_clouds

        content = load(dataset.name)
        classes = importlib.import_module(MODULES[dataset.name]).CLASSES
        figure = draw_clouds(content["train_points"], content["train_labels"], classes)
    elif any(key.startswith("train_images") for key in dataset.content):
        from repro.data.images.preview import draw_images

        figure = draw_images(dataset.name, load(dataset.name))
    else:
        msg = f"{dataset.name} has no picture: only sets of images or point clouds have"
        raise UsageError(msg)
    picture = io.BytesIO()
    figure.savefig(picture, format=form, dpi=_DPI)
    replace(path, picture.getvalue())
