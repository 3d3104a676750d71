"""ModelNet40: 12,311 CAD models of 40 classes in their official split, as OFF meshes.

Wu et al., "3D ShapeNets: A Deep Representation for Volumetric Shapes" (2015). The meshes are
sampled as the ElasticZO paper says: 1,024 points on the surface, zero centroid, unit radius.
"""

import re
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.core.validation import CLOUD_POINTS
from repro.data.base import DataSet, Value, check_sha256, mirror
from repro.data.geometry import point_cloud, read_off
from repro.data.points.clouds import SPLITS, cloud_specs, make_clouds
from repro.data.sources.http import web_file

CLASSES = (
    "airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone",
    "cup", "curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar", "keyboard",
    "lamp", "laptop", "mantel", "monitor", "night_stand", "person", "piano", "plant", "radio",
    "range_hood", "sink", "sofa", "stairs", "stool", "table", "tent", "toilet", "tv_stand", "vase",
    "wardrobe", "xbox",
)  # fmt: skip
"""Names of the labels 0 to 39."""

ARCHIVE = "ModelNet40.zip"
ARCHIVE_SHA256 = "42dc3e656932e387f554e25a4eb2cc0e1a1bd3ab54606e2a9eae444c60e536ac"
"""Hash of the official archive, as pinned by several independent loaders."""
TERMS = "https://modelnet.cs.princeton.edu"
_SEED = 40
_MEMBER = re.compile(r"ModelNet40/([^/.]+)/(train|test)/[^/.]+\.off")
"""Paths of meshes; the archive also holds resource forks and folder settings from macOS."""


def read_verified(archive: Path) -> Mapping[str, Value]:
    """Return the clouds of the official archive.

    Raises:
        BadContentError: the file is not the official archive.
    """
    check_sha256(archive, ARCHIVE_SHA256)
    return read_archive(archive)


def read_archive(archive: Path) -> Mapping[str, Value]:
    """Sample every mesh ``ModelNet40/CLASS/{train,test}/*.off`` once, in order of path."""
    with zipfile.ZipFile(archive) as opened:
        found = [match for name in sorted(opened.namelist()) if (match := _MEMBER.fullmatch(name))]
        content: dict[str, Value] = {}
        for number, split in enumerate(SPLITS):
            meshes = [(match[0], CLASSES.index(match[1])) for match in found if match[2] == split]
            content |= make_clouds(split, meshes, partial(_sample, opened, number))
    return content


def _sample(archive: zipfile.ZipFile, split: int, member: str, index: int) -> NDArray[np.float32]:
    return point_cloud(read_off(archive.read(member)), CLOUD_POINTS, (_SEED, split, index))


DATA_SETS = (
    DataSet(
        name="modelnet40",
        title="ModelNet40 meshes, sampled",
        licence="academic research only, copyright with the designers",
        terms=TERMS,
        content=cloud_specs(9_843, 2_468),
        sources=(
            web_file(f"https://modelnet.cs.princeton.edu/{ARCHIVE}", read_verified),
            mirror("modelnet40", lambda directory: read_verified(directory / ARCHIVE)),
        ),
    ),
)
