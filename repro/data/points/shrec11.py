"""SHREC11: 600 watertight meshes of 30 non-rigid classes, 16 for training and 4 for testing each.

Lian et al., "SHREC'11 Track: Shape Retrieval on Non-rigid 3D Watertight Meshes" (2011). The split
and the meshes, simplified to 500 faces, are from Hanocka et al., "MeshCNN" (2019), directory
``shrec_16``.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.core.validation import CLOUD_POINTS
from repro.data.base import BadContentError, DataSet, Value, mirror
from repro.data.geometry import point_cloud, read_obj
from repro.data.points.clouds import SPLITS, cloud_specs, make_clouds

CLASSES = (
    "alien", "ants", "armadillo", "bird1", "bird2", "camel", "cat", "centaur", "dino_ske",
    "dinosaur", "dog1", "dog2", "flamingo", "glasses", "gorilla", "hand", "horse", "lamp",
    "laptop", "man", "myScissor", "octopus", "pliers", "rabbit", "santa", "shark", "snake",
    "spiders", "two_balls", "woman",
)  # fmt: skip
"""Names of the labels 0 to 29."""

ROOT = "shrec_16"
MESHES_SHA256 = "4515ed79b007502d1492b61693a198e52956a0a64c137c09d55638f287f6cbba"
"""Hash over path, a zero byte and content of all 600 meshes, in the order of paths."""
_SEED = 11


def read_verified(directory: Path) -> Mapping[str, Value]:
    """Return the clouds of ``directory``/shrec_16/CLASS/{train,test}/*.obj.

    Raises:
        BadContentError: a mesh differs from the published ones, or is missing.
    """
    digest = hash_meshes(directory)
    if digest != MESHES_SHA256:
        msg = f"{directory / ROOT}: SHA-256 of the meshes is {digest}, must be {MESHES_SHA256}"
        raise BadContentError(msg)
    return read_meshes(directory)


def hash_meshes(directory: Path) -> str:
    """Return the SHA-256 over path, zero byte and content of every mesh, in order of paths."""
    digest = hashlib.sha256()
    names = sorted(path.relative_to(directory).as_posix() for path in _meshes(directory, "*"))
    for name in names:
        digest.update(name.encode() + b"\0" + (directory / name).read_bytes())
    return digest.hexdigest()


def read_meshes(directory: Path) -> Mapping[str, Value]:
    """Sample every mesh of ``directory`` once, in order of class and path."""
    content: dict[str, Value] = {}
    for number, split in enumerate(SPLITS):
        meshes = sorted(_meshes(directory, split))
        labelled = [(path, CLASSES.index(path.parent.parent.name)) for path in meshes]
        content |= make_clouds(split, labelled, partial(_sample, number))
    return content


def _sample(split: int, path: Path, index: int) -> NDArray[np.float32]:
    return point_cloud(read_obj(path.read_bytes()), CLOUD_POINTS, (_SEED, split, index))


def _meshes(directory: Path, split: str) -> list[Path]:
    return list((directory / ROOT).glob(f"*/{split}/*.obj"))


DATA_SETS = (
    DataSet(
        name="shrec11",
        title="SHREC11 non-rigid meshes, 30 classes, sampled",
        licence="research use, no licence given; not to be redistributed",
        content=cloud_specs(
            480,
            120,
            (
                "eacb828b9df13298d7a5a03f27b1d9202e09f1c8c2c2c06f2ee217ead40cd48c",
                "4d8cf0f0aeb0d3cf7254633b60201dd3abfb0b5e2daa2c738c4d4e5d3dd9fbd4",
                "a5cb40f51a55e3de71ebbd4f88f273e74d8d2d13d85a45be8b0e405029775631",
                "f3d6d5391baee13e039928f2a7710e5319ca00c1eb4680468fe8500a963fd90d",
            ),
        ),
        sources=(mirror("shrec11", read_verified),),
    ),
)
