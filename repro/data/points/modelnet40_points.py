"""ModelNet40 as one file of clouds sampled by others: 12,311 shapes with 1,024 points each.

Wu et al., "3D ShapeNets: A Deep Representation for Volumetric Shapes" (2015), in its official split
of 9,843 + 2,468 shapes. Every mesh was sampled uniformly once, with an unknown seed; each cloud has
zero centroid, unit radius and z upwards. The file holds coordinates as 16-bit integers in units of
1/32767, so a coordinate is off by at most 1.6e-5. The sets ``modelnet40`` and ``modelnet40_hdf5``
hold other points on the same meshes.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from repro.data.arrays import read_npz
from repro.data.base import BadContentError, DataSet, Value, mirror
from repro.data.points.clouds import SPLITS, cloud_specs
from repro.data.points.modelnet40 import CLASSES, TERMS

FILE = "modelnet40_1024_i16.npz"
UNIT = 32767
"""The integer that encodes the coordinate 1."""
_LARGEST = 2**27
"""Largest array in bytes; the coordinates have 75,638,784."""
_REMEDY = "replace it by the published file (docs/data.md describes it)"


def read_file(path: Path) -> Mapping[str, Value]:
    """Return the clouds and labels of both splits.

    Labels follow ``CLASSES``, for any order of classes in the file.

    Raises:
        BadContentError: the file is truncated, lacks a field, or is another one.
    """
    try:
        fields = read_npz(path.read_bytes(), ("x", "y", "n_train", "classes"), _LARGEST)
        points = np.divide(fields["x"], np.float32(UNIT), dtype=np.float32, casting="safe")
        places = [CLASSES.index(name) for name in fields["classes"]]
        labels = np.array(places, np.uint8)[fields["y"]]
        at = int(fields["n_train"])
        content: dict[str, Value] = {}
        for split, part in zip(SPLITS, (slice(at), slice(at, None)), strict=True):
            content |= {f"{split}_points": points[part], f"{split}_labels": labels[part]}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadContentError(f"{path}: {error}: truncated, or another file; {_REMEDY}") from error
    return content


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
        sources=(mirror("modelnet40_points", lambda directory: read_file(directory / FILE)),),
    ),
)
