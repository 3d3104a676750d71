"""ModelNet40 as one file of clouds sampled by others: 12,311 shapes with 1,024 points each.

Wu et al., "3D ShapeNets: A Deep Representation for Volumetric Shapes" (2015), in its official split
of 9,843 + 2,468 shapes. Every mesh was sampled uniformly once, with an unknown seed; each cloud has
zero centroid, unit radius and z upwards. The file holds coordinates as 16-bit integers in units of
1/32767, so a coordinate is off by at most 1.6e-5. The sets ``modelnet40`` and ``modelnet40_hdf5``
hold other points on the same meshes.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.data.arrays import BadArrayError, read_npz
from repro.data.base import Array, BadContentError, DataSet, Value, check_labels
from repro.data.points.clouds import POINTS, SPLITS, check_classes, cloud_specs
from repro.data.points.modelnet40 import CLASSES, TERMS
from repro.data.sources.local import Mirror

FILE = "modelnet40_1024_i16.npz"
UNIT = 32767
"""The integer that encodes the coordinate 1."""
RADIUS_TOLERANCE = 1e-4
"""Largest difference of a cloud's radius from 1; rounding to 16 bits explains 3e-5."""
_FIELDS = {
    "x": ("<i2", 3),
    "y": ("|u1", 1),
    "n_train": ("<i8", 0),
    "classes": ("<U", 1),
    "names": ("<U", 1),
}
"""Type and number of axes of each array of the file; strings may have any length."""
_LARGEST = 2**27
"""Largest array in bytes; the coordinates have 75,638,784."""
_REMEDY = "replace it by the published file (docs/data.md describes it)"


def read_file(path: Path) -> Mapping[str, Value]:
    """Return the clouds and labels of both splits.

    Labels follow ``CLASSES``, for any order of classes in the file.

    Raises:
        BadContentError: the file is truncated or lacks a field; a field has the wrong type or
            shape; a label, a class or a name does not fit the others; or a cloud does not have unit
            radius.
    """
    fields = _read_fields(path)
    labels = _labels(path, fields)
    points = _points(path, fields["x"])
    at = int(fields["n_train"])
    content: dict[str, Value] = {}
    for split, part in zip(SPLITS, (slice(at), slice(at, None)), strict=True):
        content |= {f"{split}_points": points[part], f"{split}_labels": labels[part]}
    return content


def _read_fields(path: Path) -> dict[str, Array]:
    """Return the arrays of the file, whose types and shapes fit each other."""
    try:
        fields = read_npz(path.read_bytes(), _FIELDS, _LARGEST)
    except BadArrayError as error:
        msg = f"{path}: {error}: truncated, or another file; {_REMEDY}"
        raise BadContentError(msg) from error
    for name in _FIELDS.keys() - fields.keys():
        raise _bad(path, name, "is missing")
    for name, (dtype, axes) in _FIELDS.items():
        field = fields[name]
        if not field.dtype.str.startswith(dtype) or field.ndim != axes:
            raise _bad(
                path,
                name,
                f"has type {field.dtype.str} and shape {field.shape}; must be of type {dtype} "
                f"with {axes} axes",
            )
    shapes = len(fields["x"])
    if fields["x"].shape[1:] != (POINTS, 3):
        raise _bad(path, "x", f"has shape {fields['x'].shape}; must be (n, {POINTS}, 3)")
    for name in ("y", "names"):
        if len(fields[name]) != shapes:
            raise _bad(path, name, f"has {len(fields[name])} values for {shapes} shapes in x")
    if not 0 < fields["n_train"] < shapes:
        raise _bad(path, "n_train", f"is {fields['n_train']}; must be in 1..{shapes - 1}")
    return fields


def _labels(path: Path, fields: Mapping[str, Array]) -> NDArray[np.uint8]:
    """Return the labels in the order of ``CLASSES``, checked against the shapes' names."""
    classes, names = fields["classes"].tolist(), fields["names"].tolist()
    check_classes(classes, CLASSES, f"{path}: classes")
    check_labels(fields["y"], len(classes), f"{path}: y")
    for index, (name, label) in enumerate(zip(names, fields["y"].tolist(), strict=True)):
        if re.fullmatch(rf"{re.escape(classes[label])}_\d+", name) is None:
            raise _bad(path, "names", f"calls shape {index} {name!r}, y says {classes[label]!r}")
    if len(set(names)) < len(names):
        raise _bad(path, "names", "has a name twice")
    places = np.array([CLASSES.index(name) for name in classes], np.uint8)
    labels: NDArray[np.uint8] = places[fields["y"]]
    return labels


def _points(path: Path, integers: NDArray[np.int16]) -> NDArray[np.float32]:
    points: NDArray[np.float32] = integers.astype(np.float32)
    points /= np.float32(UNIT)
    squares = np.einsum("npc,npc->np", points, points, dtype=np.float64)
    radii = np.sqrt(squares.max(axis=1))
    wrong = np.flatnonzero(np.abs(radii - 1) > RADIUS_TOLERANCE)
    if wrong.size:
        first = int(wrong[0])
        raise _bad(
            path,
            "x",
            f"gives shape {first} the radius {radii[first]:.4f}; must be 1 within "
            f"{RADIUS_TOLERANCE:g} ({wrong.size} shapes are wrong)",
        )
    return points


def _bad(path: Path, field: str, problem: str) -> BadContentError:
    return BadContentError(f"{path}: {field} {problem}; {_REMEDY}")


DATA_SETS = (
    DataSet(
        name="modelnet40_points",
        title="ModelNet40 as points, sampled once by others",
        licence="academic research only, copyright with the designers; not to be redistributed",
        terms=TERMS,
        content=cloud_specs(
            9_843,
            2_468,
            (
                "bac4382c301420b5edcbd937b99cabecbf20d2da90bfe30b2f12e52d4a6ceca5",
                "0a3739c7de0fcf0cbe8e036628888303039a9787c2d1b73de5e51b7e205191ac",
                "c255b65506954e859a48f5524db7490ee33d659e6034d764eba5f0632481da65",
                "e6d7df7e9d69094a6219460bf229e9ab7f374ec27b35bc8e0bc1ce843e88511f",
            ),
        ),
        sources=(Mirror("modelnet40_points", lambda directory: read_file(directory / FILE)),),
    ),
)
