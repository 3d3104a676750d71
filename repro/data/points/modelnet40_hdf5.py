"""ModelNet40 as published by PointNet's authors: 2,048 points a shape in HDF5 files.

Qi et al., "PointNet" (2017). Three training shapes of the official split are missing from it. As in
PointNet's own training, the first 1,024 points of each shape are used. They are then centred and
scaled to unit radius like the other sets.
"""

import hashlib
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.data.base import BadContentError, DataSet, Value, check_labels
from repro.data.geometry.mesh import normalise
from repro.data.points.clouds import POINTS, SPLITS, cloud_specs, make_clouds
from repro.data.points.modelnet40 import CLASSES, TERMS
from repro.data.sources.archives import open_member, open_zip
from repro.data.sources.http import Http
from repro.data.sources.local import Mirror

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

_FAR = 1e18
"""Larger than any coordinate; its square is finite in float32."""
_LARGEST_FILE = 2**28
"""Largest file in bytes: 2,048 shapes of 2,048 points, normals and face ids take 117,440,512."""


def read_archive(archive: Path) -> Mapping[str, Value]:
    """Unpack the seven files next to ``archive`` and return their clouds; see `read_verified`."""
    with open_zip(archive) as opened:
        for name in FILES_MD5:
            target = archive.parent / DIRECTORY / name
            target.parent.mkdir(exist_ok=True)
            with (
                open_member(opened, f"{DIRECTORY}/{name}", _LARGEST_FILE) as member,
                target.open("wb") as file,
            ):
                shutil.copyfileobj(member, file)
    return read_verified(archive.parent / DIRECTORY)


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
            msg = f"{directory / name}: MD5 is {digest}, must be {expected}"
            raise BadContentError(msg)
    return read_directory(directory)


def read_directory(directory: Path) -> Mapping[str, Value]:
    """Return the clouds of ``ply_data_train*.h5`` and ``ply_data_test*.h5``, in order of names.

    Raises:
        BadContentError: a file is not HDF5, or lacks ``data`` [n, >= 1024, 3] and ``label`` [n, 1].
    """
    content: dict[str, Value] = {}
    for split in SPLITS:
        shapes: list[tuple[NDArray[np.float32], int]] = []
        for path in sorted(directory.glob(f"ply_data_{split}*.h5")):
            points, labels = read_file(path)
            shapes += zip(points, labels.tolist(), strict=True)
        content |= make_clouds(split, shapes, _first_points)
    return content


def read_file(path: Path) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return the points [n, P, 3] and the labels [n] of one file.

    Raises:
        BadContentError: as for `read_directory`; also for a label outside the classes or a
            non-finite point.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            data, label = file["data"], file["label"]
            if max(data.nbytes, label.nbytes) > _LARGEST_FILE:
                msg = f"its arrays declare {data.nbytes:,} and {label.nbytes:,} bytes"
                raise ValueError(msg)
            points, labels = data[:], label[:].reshape(-1)
    except (
        OSError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RuntimeError,
        ValueError,
    ) as error:  # h5py passes on many kinds of errors from the library
        msg = f"{path}: not HDF5 with the arrays data and label ({error})"
        raise BadContentError(msg) from error
    if (
        points.dtype.kind != "f"
        or points.ndim != 3
        or points.shape[1] < POINTS
        or points.shape[2] != 3
    ):
        msg = (
            f"{path}: data has shape {points.shape} of {points.dtype}; must be (n, at least "
            f"{POINTS}, 3) of floating-point numbers"
        )
        raise BadContentError(msg)
    if len(points) != len(labels) or labels.dtype.kind not in "iu":
        msg = f"{path}: {len(points)} shapes, {len(labels)} labels of type {labels.dtype}"
        raise BadContentError(msg)
    if not (np.abs(points) < _FAR).all():  # also false for NaN
        msg = f"{path}: a coordinate is not finite, or not below {_FAR:g}"
        raise BadContentError(msg)
    check_labels(labels, len(CLASSES), str(path))
    return points.astype(np.float32), labels.astype(np.uint8)


def _first_points(points: NDArray[np.float32], index: int) -> NDArray[np.float32]:
    return normalise(points[:POINTS], f"shape {index}").astype(np.float32)


DATA_SETS = (
    DataSet(
        name="modelnet40_hdf5",
        title="ModelNet40 as PointNet's authors sampled it",
        licence="academic research only, copyright with the designers",
        terms=TERMS,
        content=cloud_specs(9_840, 2_468),
        sources=(
            Http(f"https://shapenet.cs.stanford.edu/media/{DIRECTORY}.zip", read_archive),
            Mirror(DIRECTORY, read_verified),
        ),
    ),
)
