"""Surfaces from which parametric solids are assembled.

Only those primitives of trimesh are used whose triangles are the same in every release since 4.5.0;
its torus and capsule changed.
"""

import math
from collections.abc import Sequence

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray
from trimesh import creation

Solid = trimesh.Trimesh
ROUND = 32
"""Number of sides of an approximated circle."""
_ORIGIN = (0.0, 0.0, 0.0)


def box(extents: Sequence[float], at: Sequence[float] = _ORIGIN) -> Solid:
    """Return a box with these side lengths, centred at ``at``."""
    return _placed(creation.box(extents=extents), at)


def cylinder(
    radius: float, height: float, *, at: Sequence[float] = _ORIGIN, sides: int = ROUND
) -> Solid:
    """Return an upright cylinder centred at ``at``; with few ``sides`` it is a prism."""
    return _placed(creation.cylinder(radius, height, sections=sides), at)


def cone(radius: float, height: float, *, sides: int = ROUND) -> Solid:
    """Return an upright cone; with few ``sides`` it is a pyramid."""
    return _placed(creation.cone(radius, height, sections=sides))


def capsule(radius: float, height: float) -> Solid:
    """Return an upright cylinder of this height with a hemisphere on both ends."""
    lower = elliptic_arc(radius, radius, -90, 0)
    upper = [(r, z + height) for r, z in elliptic_arc(radius, radius, 0, 90)]
    return turned([*lower, *upper])


def tube(inner: float, outer: float, height: float) -> Solid:
    """Return an upright pipe between two radii."""
    return _placed(creation.annulus(inner, outer, height, sections=ROUND))


def torus(radius: float, thickness: float) -> Solid:
    """Return a ring around the z axis; ``thickness`` is the radius of its section."""
    section = elliptic_arc(thickness, thickness, 0, 360)
    return turned([(radius + r, z) for r, z in section])


def ball(radii: Sequence[float], at: Sequence[float] = _ORIGIN) -> Solid:
    """Return an ellipsoid with these half axes, centred at ``at``."""
    return transformed(creation.icosphere(subdivisions=2), np.diag(radii), at)


def turned(profile: Sequence[tuple[float, float]], sides: int = ROUND) -> Solid:
    """Return the surface of revolution of a profile of (radius, height) around the z axis."""
    angles = np.linspace(0, 2 * math.pi, sides + 1)
    radii, heights = np.array(profile, np.float64).T[:, :, None]
    axes = np.broadcast_arrays(radii * np.cos(angles), radii * np.sin(angles), heights)
    return sheet(np.stack(axes, axis=2))


def extruded(radii: Sequence[float], depth: float) -> Solid:
    """Return a plate whose outline has these radii at equal angles around its centre."""
    outline = np.array(circle(len(radii))) * np.array(radii)[:, None]
    closed = np.concatenate([outline, outline[:1]])
    rows = [
        np.column_stack([closed * scale, np.full(len(closed), z)])
        for scale, z in ((0, -depth / 2), (1, -depth / 2), (1, depth / 2), (0, depth / 2))
    ]
    return sheet(np.stack(rows))


def sheet(grid: NDArray[np.float64]) -> Solid:
    """Return the surface through a grid of points [U, V, 3], two triangles for each cell."""
    rows, columns = grid.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b = index[:-1, :-1].ravel(), index[1:, :-1].ravel()
    c, d = index[1:, 1:].ravel(), index[:-1, 1:].ravel()
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return Solid(grid.reshape(-1, 3), faces, process=False)


def transformed(solid: Solid, matrix: ArrayLike, at: Sequence[float] = _ORIGIN) -> Solid:
    """Return ``solid`` with its vertices times ``matrix`` [3, 3], then moved by ``at``."""
    return Solid(solid.vertices @ np.asarray(matrix).T + at, solid.faces, process=False)


def joined(*parts: Solid) -> Solid:
    """Return all ``parts`` as one mesh; surfaces inside another part stay."""
    vertices, faces = trimesh.util.append_faces(
        [part.vertices for part in parts], [part.faces for part in parts]
    )
    return Solid(vertices, faces, process=False)


def circle(count: int) -> list[tuple[float, float]]:
    """Return ``count`` points at equal angles on the unit circle."""
    angles = [2 * math.pi * step / count for step in range(count)]
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def elliptic_arc(
    radius: float, height: float, start: float, end: float
) -> list[tuple[float, float]]:
    """Return a profile on an ellipse with these half axes, between two angles in degrees."""
    angles = np.radians(np.linspace(start, end, 13))
    return [(radius * math.cos(angle), height * math.sin(angle)) for angle in angles]


def _placed(solid: Solid, at: Sequence[float] = _ORIGIN) -> Solid:
    return Solid(solid.vertices + at, solid.faces, process=False)
