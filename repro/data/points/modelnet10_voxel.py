"""ModelNet10 from occupancy grids of 30x30x30: clouds of surface-voxel centres.

Wu et al., "3D ShapeNets" (2015), voxelised by binvox to 24 voxels with a border of 3. A substitute
where the meshes cannot be had: coordinates are multiples of one voxel, and shapes with fewer than
1,024 surface voxels repeat them.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.data.arrays import BadArrayError, read_npz
from repro.data.base import BadContentError, DataSet, Value
from repro.data.geometry.sampling import normalise
from repro.data.geometry.voxels import draw_centres
from repro.data.labels import check_labels
from repro.data.points.clouds import POINTS, SPLITS, cloud_specs, make_clouds
from repro.data.sources.mirror import Mirror

CLASSES = (
    "bathtub", "bed", "chair", "desk", "dresser",
    "monitor", "night_stand", "sofa", "table", "toilet",
)  # fmt: skip
"""Names of the labels 0 to 9."""

FILE = "modelnet10_30.npz"
FILE_SHA256 = "85fb9d01bbaa1913cde8cd385557b31e05cb179585c572298151f54f1e1373fb"
EMPTY = {"train": 7, "test": 1}
"""Empty grids in the published file, which are dropped from the official 3,991 + 908."""
_LARGEST = 2**30
"""Bytes of one array: 3,991 grids in float64 have 862,056,000."""
_KINDS = {grids + labels for grids in "biuf" for labels in "iu"}
"""Kinds of numbers: of the grids, then of the labels."""
_SEED = 10


def read_verified(directory: Path) -> Mapping[str, Value]:
    """Return the clouds of ``directory``/modelnet10_30.npz.

    Raises:
        BadContentError: it is not the published file.
    """
    path = directory / FILE
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != FILE_SHA256:
        msg = f"{path}: SHA-256 is {digest}, must be {FILE_SHA256}"
        raise BadContentError(msg)
    return read_grids(path)


def read_grids(path: Path) -> Mapping[str, Value]:
    """Return the clouds of every grid in ``path`` that is not empty, in their order.

    Raises:
        BadContentError: not an npz file with ``X_SPLIT`` [n, X, Y, Z] of 0 and 1 and
            ``y_SPLIT`` [n].
    """
    content: dict[str, Value] = {}
    for number, split in enumerate(SPLITS):
        grids, labels = _read_split(path, split)
        shapes = [
            (grid, int(label)) for grid, label in zip(grids, labels, strict=True) if grid.any()
        ]
        content |= make_clouds(split, shapes, partial(_sample, number))
    return content


def _read_split(path: Path, split: str) -> tuple[NDArray[np.bool_], NDArray[np.integer]]:
    try:
        fields = read_npz(path.read_bytes(), (f"X_{split}", f"y_{split}"), _LARGEST)
        grids, labels = fields[f"X_{split}"], fields[f"y_{split}"]
    except (BadArrayError, KeyError) as error:
        msg = f"{path}: not an npz file with X_{split} and y_{split} ({error}); get it again"
        raise BadContentError(msg) from error
    kinds = grids.dtype.kind + labels.dtype.kind
    if kinds not in _KINDS or grids.ndim != 4 or labels.shape != grids.shape[:1]:
        msg = (
            f"{path}: X_{split} has shape {grids.shape} of {grids.dtype}, y_{split} "
            f"{labels.shape} of {labels.dtype}"
        )
        raise BadContentError(msg)
    if ((grids != 0) & (grids != 1)).any():
        msg = f"{path}: X_{split} has values from {grids.min()} to {grids.max()}; must be 0 or 1"
        raise BadContentError(msg)
    check_labels(labels, len(CLASSES), str(path))
    return grids.astype(bool), labels


def _sample(split: int, grid: NDArray[np.bool_], index: int) -> NDArray[np.float32]:
    centres = draw_centres(grid, POINTS, np.random.PCG64((_SEED, split, index)))
    return normalise(centres, f"grid {index}").astype(np.float32)


DATA_SETS = (
    DataSet(
        name="modelnet10_voxel",
        title="ModelNet10 voxel grids, their surface voxels as points",
        licence="academic research only, not to be redistributed",
        content=cloud_specs(
            3_991 - EMPTY["train"],
            908 - EMPTY["test"],
            (
                "89bbd9ccd9e21d2a41a17d399e758aa0e55c7b77aae76069a2865ea20fb82684",
                "24782d6b71d3d5f3f927eb64d7043127d18cc03f8238c38ec58fdaea1028ced0",
                "e0a35398035c7f9f581b2cd15c8bc62a06282633c9c1c8ac801b9dc8ff0710c6",
                "c004ea811b6ef6ba3bc044c8a886c941ef52f766ae78e522b0a2e66a51a03e50",
            ),
        ),
        sources=(Mirror("modelnet10_voxel", read_verified),),
    ),
)
