"""Triangle meshes as two checked arrays, and point clouds sampled from their surfaces.

The points are the same on every platform, so sampled arrays can be pinned by hash: coordinates go
only through float64 additions, products, quotients and square roots, each rounded as IEEE 754 says,
and random numbers are the raw output of PCG64, which NumPy promises never to change (NEP 19).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.data.base import BadContentError


class MeshError(BadContentError):
    """A mesh file that cannot be used; the message names the file, the value and the limit."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles over shared vertices.

    Raises:
        MeshError: there is no vertex or no face, a coordinate is not finite, or a face refers to a
            missing vertex.
    """

    name: str
    """Origin of the mesh; every error message starts with it."""
    vertices: NDArray[np.float64]
    """Coordinates [V, 3]."""
    faces: NDArray[np.int64]
    """Vertex indices [F, 3], counted from 0."""

    def __post_init__(self) -> None:
        if len(self.vertices) == 0 or len(self.faces) == 0:
            msg = (
                f"{self.name}: an empty mesh ({len(self.vertices)} vertices, "
                f"{len(self.faces)} faces); at least one face is needed to sample points"
            )
            raise MeshError(msg)
        finite = np.isfinite(self.vertices).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            msg = f"{self.name}: vertex {row} is {self.vertices[row].tolist()}; must be finite"
            raise MeshError(msg)
        valid = ((self.faces >= 0) & (self.faces < len(self.vertices))).all(axis=1)
        if not valid.all():
            row = int(np.argmin(valid))
            msg = (
                f"{self.name}: face {row} names vertices {self.faces[row].tolist()}; "
                f"the mesh has 0 to {len(self.vertices) - 1}"
            )
            raise MeshError(msg)

    def triangle_areas(self) -> NDArray[np.float64]:
        """Return the area of every face, [F], in squared units; infinite where it overflows."""
        a, b, c = (self.vertices[self.faces[:, corner]] for corner in range(3))
        with np.errstate(over="ignore", invalid="ignore"):
            x, y, z = np.cross(b - a, c - a).T
            # Written out, since a library's norm may reorder the sum and change the pinned hashes.
            areas: NDArray[np.float64] = np.sqrt(x * x + y * y + z * z) / 2
        return np.where(np.isnan(areas), np.inf, areas)


def fan(polygon: list[int]) -> list[tuple[int, int, int]]:
    """Split a convex ``polygon`` of k >= 3 vertex indices into k - 2 triangles."""
    return [(polygon[0], polygon[i], polygon[i + 1]) for i in range(1, len(polygon) - 1)]


def uniform(stream: np.random.PCG64, *shape: int) -> NDArray[np.float64]:
    """Draw numbers in [0, 1), each from the top 53 bits of one raw output of ``stream``."""
    raw: NDArray[np.uint64] = stream.random_raw(shape)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample_surface(mesh: Mesh, count: int, stream: np.random.PCG64) -> NDArray[np.float64]:
    """Draw ``count`` points uniformly from the surface of ``mesh``.

    A triangle is drawn with probability proportional to its area, then a point in it by the
    square-root map of Osada et al., "Shape Distributions" (2002), section 4.2.

    Returns:
        Points [count, 3] in the coordinates of the mesh.

    Raises:
        MeshError: the surface has no area, or an area that overflows.
    """
    with np.errstate(over="ignore"):
        cumulative = np.cumsum(mesh.triangle_areas())
    total = cumulative[-1]
    if not (np.isfinite(total) and total > 0):
        msg = f"{mesh.name}: the area of the surface is {total}; must be finite and above 0"
        raise MeshError(msg)
    choice, across, along = uniform(stream, 3, count)
    # side="right" skips triangles without area, whose interval is empty
    drawn = np.searchsorted(cumulative, choice * total, side="right")
    # choice * total rounds up to the total if that is subnormal
    corners = mesh.vertices[mesh.faces[np.minimum(drawn, len(cumulative) - 1)]]
    root, along = np.sqrt(across)[:, None], along[:, None]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    points: NDArray[np.float64] = (1 - root) * a + root * (1 - along) * b + root * along * c
    return points


def normalise(points: NDArray[np.floating], name: str) -> NDArray[np.float64]:
    """Move ``points`` [N, 3] to zero centroid and scale them to unit radius.

    Raises:
        MeshError: all points coincide, so the radius is zero.
    """
    centred = np.asarray(points, np.float64)
    # a running sum fixes the order of additions, which a mean leaves to the implementation
    centred = centred - np.cumsum(centred, axis=0)[-1] / len(centred)
    x, y, z = centred.T
    radius = np.sqrt(x * x + y * y + z * z).max()
    if not (np.isfinite(radius) and radius > 0):
        msg = f"{name}: the radius of the point cloud is {radius}; must be finite and above 0"
        raise MeshError(msg)
    scaled: NDArray[np.float64] = centred / radius
    return scaled


def point_cloud(mesh: Mesh, count: int, seed: Sequence[int]) -> NDArray[np.float32]:
    """Return ``count`` points of ``mesh``, [count, 3], centred and of unit radius.

    ``seed`` identifies the mesh as well as the run, for example (seed of the set, split, index), so
    one cloud can be regenerated without the others.

    Raises:
        MeshError: see `sample_surface` and `normalise`.
    """
    points = sample_surface(mesh, count, np.random.PCG64(seed))
    return normalise(points, mesh.name).astype(np.float32)
