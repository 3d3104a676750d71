"""Small data sets in the place of the real ones, and records of runs that never were."""

from pathlib import Path
from typing import Any

import numpy as np

from repro.data import cache
from repro.data.catalog import load_set
from repro.measurement.environment import capture
from repro.measurement.records import Record


def write_mnist(data: Path) -> None:
    """Put 32 + 16 images into a data directory as MNIST, each class a bar in another place."""
    labels = np.arange(32, dtype=np.uint8) % 10
    images = np.zeros((32, 28, 28), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 4] = 255
    place = data / cache.location(load_set("mnist")).name
    place.mkdir(parents=True)
    np.save(place / "train_images.npy", images)
    np.save(place / "train_labels.npy", labels)
    np.save(place / "test_images.npy", images[:16])
    np.save(place / "test_labels.npy", labels[:16])
    (place / cache.MANIFEST).write_text("{}")


def made(point: dict[str, Any], metrics: dict[str, Any], **fields: Any) -> Record:
    """Return a record of a run of this machine; ``fields`` are those that matter to the test."""
    usual = {
        "schema_version": 1, "artifact": "made", "profile": "paper", "config": {}, "seed": 0,
        "kind": "run", "utc": "2026-01-02T03:04:05Z", "environment": capture(),
    }  # fmt: skip
    return Record(point=point, metrics=metrics, **usual | fields)
