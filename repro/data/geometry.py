"""Triangle meshes of OFF and OBJ files, and point clouds sampled from their surfaces.

The readers trust the format: callers check the hash of every file before. The points are the same
on every platform, so sampled arrays can be pinned by hash: coordinates go only through float64
additions, products, quotients and square roots, each rounded as IEEE 754 says, and random numbers
are the raw output of PCG64, which NumPy promises never to change (NEP 19).
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Mesh(NamedTuple):
    """Triangles over shared vertices."""

    vertices: NDArray[np.float64]
    """Coordinates [V, 3]."""
    faces: NDArray[np.int64]
    """Vertex indices [F, 3], counted from 0."""


def read_off(data: bytes) -> Mesh:
    """Return the mesh of an OFF file; polygons become triangle fans, and colours are dropped.

    Format: http://www.geomview.org/docs/html/OFF.html, in ASCII. ModelNet40 has files whose first
    line runs into the second (``OFF490 518 0``).
    """
    text = re.sub("#.*", "", data.decode()).strip().removeprefix("OFF")
    header, *body = [line for line in text.split("\n") if line.strip()]
    count = int(header.split()[0])
    rows = body[count:]
    vertices = np.loadtxt(body[:count], ndmin=2)
    try:  # nearly every file has triangles only, and one call reads them all
        table = np.loadtxt(rows, np.int64, ndmin=2)
    except ValueError:  # rows of different lengths, or with colours
        table = np.empty((0, 0), np.int64)
    if table.shape[1] == 4:
        return Mesh(vertices, np.ascontiguousarray(table[:, 1:]))
    polygons = [row.split() for row in rows]
    return Mesh(vertices, fans([int(v) for v in p[1 : int(p[0]) + 1]] for p in polygons))


def read_obj(data: bytes) -> Mesh:
    """Return the mesh of a Wavefront OBJ file: its vertices and faces, without anything else.

    Polygons become triangle fans. Indices that count backwards from the last vertex are not read.
    """
    rows = [line.split() for line in data.decode().splitlines()]
    vertices = [[float(field) for field in row[1:4]] for row in rows if row[:1] == ["v"]]
    polygons = (
        [int(field.partition("/")[0]) - 1 for field in row[1:]] for row in rows if row[:1] == ["f"]
    )
    return Mesh(np.array(vertices), fans(polygons))


def fans(polygons: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    """Return convex polygons of vertex indices, split into triangles [F, 3]."""
    return np.array(
        [(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)], np.int64
    )


def uniform(stream: np.random.PCG64, *shape: int) -> NDArray[np.float64]:
    """Draw numbers in [0, 1), each from the top 53 bits of one raw output of ``stream``."""
    raw: NDArray[np.uint64] = stream.random_raw(shape)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample_surface(mesh: Mesh, count: int, stream: np.random.PCG64) -> NDArray[np.float64]:
    """Draw ``count`` points [count, 3] uniformly from the surface of ``mesh``.

    A triangle is drawn with probability proportional to its area, then a point in it by the
    square-root map of Osada et al., "Shape Distributions" (2002), section 4.2. The points are in
    the coordinates of the mesh.
    """
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    x, y, z = np.cross(b - a, c - a).T
    # Written out, since a library's norm may reorder the sum and change the pinned hashes.
    cumulative = np.cumsum(np.sqrt(x * x + y * y + z * z) / 2)
    choice, across, along = uniform(stream, 3, count)
    # side="right" skips triangles without area, whose interval is empty
    drawn = np.searchsorted(cumulative, choice * cumulative[-1], side="right")
    root, along = np.sqrt(across)[:, None], along[:, None]
    points: NDArray[np.float64] = (
        (1 - root) * a[drawn] + root * (1 - along) * b[drawn] + root * along * c[drawn]
    )
    return points


def to_unit_ball(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Move ``points`` [N, 3] to zero centroid and scale them to unit radius."""
    centred = np.asarray(points, np.float64)
    # a running sum fixes the order of additions, which a mean leaves to the implementation
    centred = centred - np.cumsum(centred, axis=0)[-1] / len(centred)
    x, y, z = centred.T
    scaled: NDArray[np.float64] = centred / np.sqrt(x * x + y * y + z * z).max()
    return scaled


def point_cloud(mesh: Mesh, count: int, seed: Sequence[int]) -> NDArray[np.float32]:
    """Return ``count`` points of ``mesh``, [count, 3], centred and of unit radius.

    ``seed`` identifies the mesh as well as the run, for example (seed of the set, split, index), so
    one cloud can be regenerated without the others.
    """
    return to_unit_ball(sample_surface(mesh, count, np.random.PCG64(seed))).astype(np.float32)
