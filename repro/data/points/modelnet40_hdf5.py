"""ModelNet40 as published by PointNet's authors: 2,048 points a shape in HDF5 files.

Qi et al., "PointNet" (2017). Three training shapes of the official split are missing from it. As in
PointNet's own training, the first 1,024 points of each shape are used. They are then centred and
scaled to unit radius like the other sets.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.core.validation import CLOUD_POINTS
from repro.data.base import BadContentError, DataSet, Value, mirror
from repro.data.geometry import to_unit_ball
from repro.data.points import modelnet40
from repro.data.points.clouds import SPLITS, cloud_specs, make_clouds
from repro.data.sources.archives import copy_member
from repro.data.sources.http import web_file

CLASSES = modelnet40.CLASSES
UPWARD = 1
"""The coordinate that points upwards."""
DIRECTORY = "modelnet40_ply_hdf5_2048"
FILES_MD5 = {
    "ply_data_train0.h5": "3176385ffc31a7b6b5af22191fd920d1",
    "ply_data_train1.h5": "e3f613fb500559403b34925112754dc4",
    "ply_data_train2.h5": "0c56e233a090ff87c3049d4ce08e7d8b",
    "ply_data_train3.h5": "9d2af465adfa33a3285c369f3ca66c45",
    "ply_data_train4.h5": "dff38de489b2c41bfaeded86c2208984",
    "ply_data_test0.h5": "e9732e6d83b09e79e9a7617df058adee",
    "ply_data_test1.h5": "aba4b12a67c34391cc3c015a6f08ed4b",
}
"""The files and their MD5 sums, as pinned by public loaders of this set."""

_LARGEST_FILE = 2**28
"""Largest file in bytes: 2,048 shapes of 2,048 points, normals and face ids take 117,440,512."""


def read_archive(archive: Path) -> Mapping[str, Value]:
    """Unpack the seven files next to ``archive`` and return their clouds; see `read_verified`."""
    unpacked = archive.parent / DIRECTORY
    unpacked.mkdir(exist_ok=True)
    for name in FILES_MD5:
        with (unpacked / name).open("wb") as file:
            copy_member(archive, f"{DIRECTORY}/{name}", file, _LARGEST_FILE)
    return read_verified(unpacked)


def read_verified(directory: Path) -> Mapping[str, Value]:
    """Return the clouds of the seven files in ``directory``.

    Raises:
        BadContentError: a file differs from the published one.
    """
    for name, expected in FILES_MD5.items():
        with (directory / name).open("rb") as file:
            digest = hashlib.file_digest(
                file, partial(hashlib.md5, usedforsecurity=False)
            ).hexdigest()
        if digest != expected:
            raise BadContentError(f"{directory / name}: MD5 is {digest}, must be {expected}")
    return read_directory(directory)


def read_directory(directory: Path) -> Mapping[str, Value]:
    """Return the clouds of the seven files in ``directory``, in the order of ``FILES_MD5``."""
    import h5py

    content: dict[str, Value] = {}
    for split in SPLITS:
        shapes: list[tuple[NDArray[np.float32], int]] = []
        for name in FILES_MD5:
            if name.startswith(f"ply_data_{split}"):
                with h5py.File(directory / name, "r") as file:
                    points = file["data"][:]  # [n, 2048, 3]
                    labels = file["label"][:].reshape(-1).astype(np.uint8)
                shapes += zip(points, labels.tolist(), strict=True)
        content |= make_clouds(
            split, shapes, lambda points, _: to_unit_ball(points[:CLOUD_POINTS]).astype(np.float32)
        )
    return content


DATA_SETS = (
    DataSet(
        name="modelnet40_hdf5",
        title="ModelNet40 as PointNet's authors sampled it",
        licence="academic research only, copyright with the designers",
        terms=modelnet40.TERMS,
        content=cloud_specs(9_840, 2_468),
        sources=(
            web_file(f"https://shapenet.cs.stanford.edu/media/{DIRECTORY}.zip", read_archive),
            mirror(DIRECTORY, read_verified),
        ),
    ),
)
