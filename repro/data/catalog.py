"""The catalogue of data sets and model files. Importing it imports none of their modules."""

import importlib

from repro.core.errors import UsageError
from repro.core.validation import unknown
from repro.data.base import DataSet

MODULES = {
    "mnist": "repro.data.images.labelled",
    "fashion_mnist": "repro.data.images.labelled",
    "rotated_mnist": "repro.data.images.rotated",
    "rotated_fashion_mnist": "repro.data.images.rotated",
    "modelnet40": "repro.data.points.modelnet40",
    "modelnet40_hdf5": "repro.data.points.modelnet40_hdf5",
    "modelnet40_points": "repro.data.points.modelnet40_points",
    "shrec11": "repro.data.points.shrec11",
    "shapes40": "repro.data.points.shapes40",
    "boolq": "repro.data.text.published",
    "yesno-facts": "repro.data.text.yesno_facts",
    "sst2": "repro.data.text.published",
    "sst2-k16": "repro.data.text.published",
    "rte": "repro.data.text.published",
    "smollm2-135m": "repro.data.language_models",
    "gemma3-270m": "repro.data.language_models",
    "qwen2.5-coder-1.5b": "repro.data.language_models",
}
"""The module of each set, by name; each module offers ``DATA_SETS: tuple[DataSet, ...]``."""


def load_set(name: str) -> DataSet:
    """Return the data set called ``name``; ``-`` and ``_`` are interchangeable.

    Raises:
        UsageError: there is none; the message gives the nearest names.
    """
    canonical = {key.replace("_", "-"): key for key in MODULES}
    key = canonical.get(name.replace("_", "-"))
    if key is None:
        raise UsageError(unknown("data set", name, MODULES, "repro data list"))
    sets: tuple[DataSet, ...] = importlib.import_module(MODULES[key]).DATA_SETS
    return next(found for found in sets if found.name == key)
