"""Triangle meshes as two checked arrays."""

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
