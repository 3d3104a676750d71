"""shapes40: a generated substitute for ModelNet40, used where ModelNet40 cannot be obtained.

It has as many clouds, points and classes as ModelNet40, but samples parametric solids instead of
CAD models. Every solid has random proportions and is stretched along its axes, rotated about the
vertical, tilted and sampled; then every point is moved a little. Coordinates are rounded to
multiples of 2^-14, far below the noise and far above the last-bit differences between mathematical
libraries. The clouds are therefore the same everywhere: the hashes were equal with trimesh 4.5.0
and 5.2.0, with NumPy 2.1.0 and 2.4.6, and without vector instructions.
"""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from repro.core.validation import CLOUD_POINTS
from repro.data.base import DataSet, Value, generated
from repro.data.geometry import Mesh, sample_surface, to_unit_ball, uniform
from repro.data.points.clouds import SPLITS, cloud_specs, make_clouds

TRAIN, TEST = 9_843, 2_468
"""Sizes of the splits, as in ModelNet40, but with all classes equally frequent."""
CLASSES = (
    "arch", "bookshelf", "bottle", "bowl", "capsule", "chair", "cone", "cross", "cuboid",
    "cylinder", "dumbbell", "ellipsoid", "frustum", "gear", "hammer", "hemisphere", "hourglass",
    "i_beam", "l_profile", "ladder", "lamp", "mug", "mushroom", "octahedron", "snowman", "spindle",
    "spring", "square_pyramid", "stairs", "star", "stool", "t_profile", "table", "tetrahedron",
    "torus", "triangular_prism", "tube", "u_profile", "vase", "wheel",
)  # fmt: skip
"""Names of the labels 0 to 39."""
SEED = 40
STRETCH = (0.75, 1.35)
"""Least and greatest factor along each axis."""
TILT = math.radians(15)
"""Greatest angle between the axis of a solid and the vertical."""
NOISE = 0.03
"""Greatest displacement of a point along each axis, for clouds of radius 1."""
_GRID = 2.0**14


def make(train: int = TRAIN, test: int = TEST) -> Mapping[str, Value]:
    """Return ``train`` and ``test`` clouds and labels; a shorter split is a prefix of a longer one.

    Labels are cyclic: clouds k, k + 40, k + 80 ... belong to class k.
    """
    content: dict[str, Value] = {}
    for number, (split, count) in enumerate(zip(SPLITS, (train, test), strict=True)):
        kinds = [(index % len(CLASSES), index % len(CLASSES)) for index in range(count)]
        content |= make_clouds(split, kinds, partial(_cloud, number))
    return content


def _cloud(split: int, kind: int, index: int) -> NDArray[np.float32]:
    from repro.data.points.solids import KINDS

    stream = np.random.PCG64((SEED, split, index))

    def draw(low: float, high: float) -> float:
        return low + (high - low) * float(uniform(stream, 1)[0])

    solid = KINDS[CLASSES[kind]](draw)
    stretch = [draw(*STRETCH) for _ in range(3)]
    pose = (
        _turn(2, draw(0, 2 * math.pi)) @ _turn(0, draw(-TILT, TILT)) @ _turn(1, draw(-TILT, TILT))
    )
    mesh = Mesh((solid.vertices * stretch) @ pose.T, np.asarray(solid.faces))
    points = to_unit_ball(sample_surface(mesh, CLOUD_POINTS, stream))
    noisy = points + NOISE * (2 * uniform(stream, CLOUD_POINTS, 3) - 1)
    return (np.round(to_unit_ball(noisy) * _GRID) / _GRID).astype(np.float32)


def _turn(axis: int, angle: float) -> NDArray[np.float64]:
    """Return the rotation by ``angle`` radians about a coordinate axis."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[first, first] = matrix[second, second] = math.cos(angle)
    matrix[second, first] = math.sin(angle)
    matrix[first, second] = -math.sin(angle)
    return matrix


DATA_SETS = (
    DataSet(
        name="shapes40",
        title="Generated stand-in with the sizes of ModelNet40 (parametric solids, 40 classes)",
        licence="MIT",
        content=cloud_specs(
            TRAIN,
            TEST,
            (
                "9a3428f5260d3e71c4ee6dd24a7de4d869b996f8e922106e758abcecc06233d0",
                "f9409ad537c20c70fa638628a0f0ec04fffa7ecd6daf0e5eb0b95e0ee9ab029a",
                "bd5f2924940e8d0f0510e5fbf93c40268eda594bf16e048a0688ec1446ba4311",
                "822bd1f683c408ac18c0b5cb09113d0f2dbe21f89b42eeb7a796f3ceeee9ae09",
            ),
        ),
        sources=(generated(make),),
    ),
)
