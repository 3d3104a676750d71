"""Point clouds from surfaces: area-weighted sampling, zero centroid, unit radius.

The points are the same on every platform, so sampled arrays can be pinned by hash: coordinates go
only through float64 additions, products, quotients and square roots, each rounded as IEEE 754 says,
and random numbers are the raw output of PCG64, which NumPy promises never to change (NEP 19).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro.data.geometry.mesh import Mesh, MeshError


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
