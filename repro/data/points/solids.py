"""Forty kinds of parametric solids, each a function that draws random proportions.

Sizes are relative: every solid is scaled to unit radius later. The z axis points up. Only those
primitives of trimesh are used whose triangles are the same in every release since 4.5.0; its torus
and capsule changed.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray
from trimesh import creation

Solid = trimesh.Trimesh
ROUND = 32
"""Number of sides of an approximated circle."""
_ORIGIN = (0.0, 0.0, 0.0)
Draw = Callable[[float, float], float]
"""Returns a uniform random number between two limits."""


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


# The pinned clouds depend on the order of the draws: each takes the next number of a stream.
def _frustum(draw: Draw) -> Solid:
    height = draw(0.8, 1.8)
    return turned([(0, 0), (1, 0), (draw(0.3, 0.65), height), (0, height)])


def _hourglass(draw: Draw) -> Solid:
    waist, height = draw(0.1, 0.3), draw(0.8, 1.4)
    return turned([(0, -height), (1, -height), (waist, 0), (1, height), (0, height)])


def _spindle(draw: Draw) -> Solid:
    return turned([(0, -draw(1.2, 2.2)), (draw(0.5, 0.8), 0), (0, draw(1.2, 2.2))])


def _bowl(draw: Draw) -> Solid:
    depth, rim = draw(0.6, 1), draw(0.75, 0.9)
    return turned(
        [*elliptic_arc(1, depth, -90, 0), *reversed(elliptic_arc(rim, rim * depth, -90, 0))]
    )


def _vase(draw: Draw) -> Solid:
    foot, belly, neck, lip = draw(0.3, 0.5), draw(0.8, 1), draw(0.25, 0.4), draw(0.45, 0.7)
    height = draw(2.2, 3.2)
    radii = np.interp(np.linspace(0, 1, 13), (0, 0.35, 0.75, 1), (foot, belly, neck, lip))
    return turned([(0, 0), *zip(radii, np.linspace(0, height, 13), strict=True)])


def _bottle(draw: Draw) -> Solid:
    body, neck, top = draw(1.2, 2), draw(0.2, 0.4), draw(0.6, 1)
    shoulder = body + draw(0.2, 0.5)
    heights = (0, 0, body, shoulder, shoulder + top, shoulder + top)
    return turned(list(zip((0, 0.7, 0.7, neck, neck, 0), heights, strict=True)))


def _mushroom(draw: Draw) -> Solid:
    stem = draw(1, 1.8)
    cap = [(0.0, stem), *((r, stem + z) for r, z in elliptic_arc(1, draw(0.4, 0.9), 0, 90))]
    return joined(cylinder(draw(0.2, 0.4), stem, at=(0, 0, stem / 2)), turned(cap))


def _gear(draw: Draw) -> Solid:
    root = draw(0.72, 0.82)
    return extruded([1.0, 1.0, root, root] * 9, draw(0.2, 0.5))


def _cross(draw: Draw) -> Solid:
    arm, depth = draw(0.25, 0.45), draw(0.2, 0.5)
    return joined(box((2, arm, depth)), box((arm, 2, depth)))


def _l_profile(draw: Draw) -> Solid:
    wall, length, leg = draw(0.15, 0.3), draw(1, 2.5), draw(0.9, 1.5)
    return joined(
        box((leg, length, wall), at=(leg / 2, 0, wall / 2)),
        box((wall, length, 1.2), at=(wall / 2, 0, 0.6)),
    )


def _t_profile(draw: Draw) -> Solid:
    wall, length, stem = draw(0.15, 0.3), draw(1, 2.5), draw(0.8, 1.4)
    return joined(
        box((1.4, length, wall), at=(0, 0, stem)), box((wall, length, stem), at=(0, 0, stem / 2))
    )


def _u_profile(draw: Draw) -> Solid:
    wall, length, height = draw(0.12, 0.25), draw(1, 2.5), draw(0.7, 1.3)
    sides = [box((wall, length, height), at=(x, 0, height / 2)) for x in (-0.6, 0.6)]
    return joined(box((1.2, length, wall), at=(0, 0, wall / 2)), *sides)


def _i_beam(draw: Draw) -> Solid:
    wall, length, height = draw(0.1, 0.2), draw(1.2, 2.5), draw(1, 1.6)
    flanges = [box((1, length, wall), at=(0, 0, z)) for z in (0, height)]
    return joined(box((wall, length, height), at=(0, 0, height / 2)), *flanges)


def _stairs(draw: Draw) -> Solid:
    rise, width = draw(0.2, 0.35), draw(0.8, 1.6)
    return joined(
        *(
            box((0.4, width, rise * (step + 1)), at=(0.4 * step, 0, rise * (step + 1) / 2))
            for step in range(5)
        )
    )


def _table(draw: Draw) -> Solid:
    length, width, height = draw(1.4, 2.2), draw(0.9, 1.3), draw(0.7, 1.2)
    return joined(
        box((length, width, 0.1), at=(0, 0, height)),
        *_legs(length / 2 - 0.1, width / 2 - 0.1, height, draw(0.08, 0.16)),
    )


def _stool(draw: Draw) -> Solid:
    height, spread = draw(1, 1.8), draw(0.35, 0.55)
    legs = [cylinder(0.07, height, at=(spread * c, spread * s, height / 2)) for c, s in circle(3)]
    return joined(cylinder(draw(0.55, 0.75), 0.15, at=(0, 0, height)), *legs)


def _chair(draw: Draw) -> Solid:
    width, depth, seat = draw(0.8, 1.1), draw(0.8, 1.1), draw(0.7, 1)
    back = draw(0.8, 1.3)
    return joined(
        box((width, depth, 0.12), at=(0, 0, seat)),
        box((width, 0.1, back), at=(0, depth / 2 - 0.05, seat + back / 2)),
        *_legs(width / 2 - 0.08, depth / 2 - 0.08, seat, draw(0.07, 0.13)),
    )


def _bookshelf(draw: Draw) -> Solid:
    width, depth, height = draw(0.9, 1.4), draw(0.35, 0.6), draw(1.6, 2.4)
    shelves = [box((width, depth, 0.06), at=(0, 0, z)) for z in np.linspace(0, height, 5)]
    sides = [box((0.06, depth, height), at=(x, 0, height / 2)) for x in (-width / 2, width / 2)]
    return joined(*shelves, *sides)


def _ladder(draw: Draw) -> Solid:
    width, height, rail = draw(0.5, 0.8), draw(2, 3), draw(0.06, 0.12)
    rails = [box((rail, rail, height), at=(x, 0, height / 2)) for x in (-width / 2, width / 2)]
    heights = np.linspace(0.15 * height, 0.9 * height, 6)
    return joined(*rails, *(box((width, rail, rail), at=(0, 0, z)) for z in heights))


def _arch(draw: Draw) -> Solid:
    inner, depth = draw(0.5, 0.8), draw(0.3, 0.9)
    angles = np.radians(np.linspace(0, 180, 25))
    outline = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [outline * inner, outline, outline, outline * inner, outline * inner]
    depths = (-depth / 2, -depth / 2, depth / 2, depth / 2, -depth / 2)
    paths = [
        np.stack([ring[:, 0], np.full(25, y), ring[:, 1]], axis=1)
        for ring, y in zip(rings, depths, strict=True)
    ]
    return sheet(np.stack(paths))


def _spring(draw: Draw) -> Solid:
    radius, height, turns = draw(0.08, 0.15), draw(1.2, 2.4), draw(3, 5)
    along = np.linspace(0, 1, 97)[:, None]
    around = np.radians(np.linspace(0, 360, 9))
    angle = 2 * math.pi * turns * along
    reach = 0.7 + radius * np.cos(around)
    height_of = height * along + radius * np.sin(around)
    return sheet(np.stack([reach * np.cos(angle), reach * np.sin(angle), height_of], axis=2))


def _dumbbell(draw: Draw) -> Solid:
    length, radius, bar = draw(1, 1.8), draw(0.35, 0.6), draw(0.1, 0.18)
    balls = [ball((radius,) * 3, at=(0, 0, z)) for z in (-length / 2, length / 2)]
    return joined(cylinder(bar, length), *balls)


def _mug(draw: Draw) -> Solid:
    height, grip = draw(1, 1.6), draw(0.3, 0.45)
    wall = turned([(0, 0), (0.6, 0), (0.6, height), (0.52, height), (0.52, 0.08), (0, 0.08)])
    handle = torus(grip, 0.07)
    upright = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    return joined(wall, transformed(handle, upright, at=(0.6, 0, height / 2)))


def _wheel(draw: Draw) -> Solid:
    tyre, spoke = draw(0.1, 0.2), draw(0.05, 0.09)
    rim = torus(1, tyre)
    spokes = []
    for cosine, sine in circle(6):
        bar = box((1, spoke, spoke), at=(0.5, 0, 0))
        turn = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
        spokes.append(transformed(bar, turn))
    return joined(rim, cylinder(draw(0.12, 0.25), 0.3), *spokes)


def _snowman(draw: Draw) -> Solid:
    radii = (draw(0.6, 0.8), draw(0.4, 0.55), draw(0.25, 0.35))
    heights = np.cumsum([0, *(0.85 * (lower + upper) for lower, upper in pairwise(radii))])
    return joined(*(ball((r,) * 3, at=(0, 0, z)) for r, z in zip(radii, heights, strict=True)))


def _hammer(draw: Draw) -> Solid:
    grip, head = draw(1.6, 2.4), draw(0.7, 1.1)
    size = draw(0.25, 0.4)
    return joined(
        cylinder(draw(0.07, 0.12), grip, at=(0, 0, grip / 2)),
        box((head, size, size), at=(0.1, 0, grip)),
    )


def _lamp(draw: Draw) -> Solid:
    pole, shade = draw(1.2, 2), draw(0.45, 0.7)
    cover = [(0.25, pole + 0.3), (shade, pole - 0.3), (shade - 0.02, pole - 0.3)]
    return joined(
        cylinder(draw(0.3, 0.5), 0.1), cylinder(0.05, pole, at=(0, 0, pole / 2)), turned(cover)
    )


def _legs(x: float, y: float, height: float, thickness: float) -> list[Solid]:
    """Return four posts at (+-x, +-y) from the ground up."""
    section = (thickness, thickness, height)
    return [box(section, at=(sx * x, sy * y, height / 2)) for sx in (-1, 1) for sy in (-1, 1)]


KINDS: dict[str, Callable[[Draw], Solid]] = {
    "arch": _arch,
    "bookshelf": _bookshelf,
    "bottle": _bottle,
    "bowl": _bowl,
    "capsule": lambda draw: capsule(draw(0.4, 0.7), draw(1, 3)),
    "chair": _chair,
    "cone": lambda draw: cone(1, draw(1.2, 3)),
    "cross": _cross,
    "cuboid": lambda draw: box((1, draw(0.4, 1), draw(0.2, 0.9))),
    "cylinder": lambda draw: cylinder(1, draw(0.8, 3)),
    "dumbbell": _dumbbell,
    "ellipsoid": lambda draw: ball((1, draw(0.7, 1), draw(0.5, 1))),
    "frustum": _frustum,
    "gear": _gear,
    "hammer": _hammer,
    "hemisphere": lambda draw: turned([(0, 0), *elliptic_arc(1, draw(0.8, 1.2), 0, 90)]),
    "hourglass": _hourglass,
    "i_beam": _i_beam,
    "l_profile": _l_profile,
    "ladder": _ladder,
    "lamp": _lamp,
    "mug": _mug,
    "mushroom": _mushroom,
    "octahedron": lambda draw: turned([(0, -draw(0.8, 1.5)), (1, 0), (0, draw(0.8, 1.5))], sides=4),
    "snowman": _snowman,
    "spindle": _spindle,
    "spring": _spring,
    "square_pyramid": lambda draw: cone(1, draw(0.8, 2), sides=4),
    "stairs": _stairs,
    "star": lambda draw: extruded([1.0, draw(0.35, 0.5)] * 5, draw(0.15, 0.5)),
    "stool": _stool,
    "t_profile": _t_profile,
    "table": _table,
    "tetrahedron": lambda draw: cone(1, draw(1, 1.8), sides=3),
    "torus": lambda draw: torus(1, draw(0.15, 0.4)),
    "triangular_prism": lambda draw: cylinder(1, draw(1, 3), sides=3),
    "tube": lambda draw: tube(draw(0.5, 0.85), 1, draw(0.6, 2.5)),
    "u_profile": _u_profile,
    "vase": _vase,
    "wheel": _wheel,
}
"""The function of each class, in the order of the class names."""
