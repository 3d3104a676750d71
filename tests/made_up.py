"""Small data sets in the place of the real ones, and records of runs that never were."""

from pathlib import Path
from typing import Any

import numpy as np

from repro.data import cache
from repro.data.catalog import load_set
from repro.finetuning.run import LanguageModelRun
from repro.measurement.environment import Environment, capture
from repro.measurement.records import Record

HERE = Environment(
    commit="a" * 40, dirty=False, source_sha256="", constraints_sha256=None, python="3.11",
    system="Linux", cpu="one", cores=2, memory_bytes=1, threads=1, cpu_capability="AVX2",
    onednn=True, gpu=None, versions={"torch": "2.15"},
)  # fmt: skip
"""Another machine."""


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


def fine_tuning(**settings: Any) -> LanguageModelRun:
    """Return a short run on generated questions; ``settings`` are those that matter to the test."""
    usual = {
        "arm": "mezo_1", "model": "tiny-llama", "dtype": "float32", "dataset": "yesno-facts",
        "context": 48, "batch": 4, "lr": 1e-3, "eps": 1e-3, "seed": 0, "seconds": 1.0,
        "evaluations": 4, "tuning_items": 16, "monitored_items": 24, "final_items": 48,
        "device": "cpu", "threads": 1,
    }  # fmt: skip
    return LanguageModelRun(**usual | settings)
