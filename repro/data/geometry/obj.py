"""Wavefront OBJ, geometry only.

Format: Wavefront Technologies, "Object Files (.obj)", Advanced Visualizer manual, appendix B1.
Texture coordinates, normals, groups, materials, points and lines are ignored; an unknown keyword is
refused.
"""

import numpy as np

from repro.data.geometry.mesh import Mesh, MeshError, fan

_PASSED_OVER = frozenset(
    {"vt", "vn", "vp", "g", "o", "s", "mg", "usemtl", "mtllib", "usemap", "maplib", "l", "p"}
)


def read_obj(data: bytes, name: str) -> Mesh:
    """Read one mesh; polygons become triangle fans and all groups are joined.

    Args:
        data: the whole file.
        name: its name in error messages, usually its path.

    Raises:
        MeshError: a row cannot be read (the message gives its line number), or `Mesh` refuses the
            result.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{name}: byte {error.start} is not UTF-8; the file is not OBJ or is damaged"
        raise MeshError(msg) from error
    vertices: list[list[float]] = []
    triangles: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.partition("#")[0].split()
        if not fields or fields[0] in _PASSED_OVER:
            continue
        try:
            if fields[0] == "v":
                vertices.append(_read_vertex(fields[1:]))
            elif fields[0] == "f":
                triangles += fan(_read_face(fields[1:], len(vertices)))
            else:
                raise ValueError("unknown keyword")
        except ValueError as error:
            msg = f"{name}, line {number}: cannot read {line.strip()[:40]!r}: {error}"
            raise MeshError(msg) from error
    return Mesh(
        name,
        np.array(vertices, np.float64).reshape(-1, 3),
        np.array(triangles, np.int64).reshape(-1, 3),
    )


def _read_vertex(fields: list[str]) -> list[float]:
    if len(fields) not in (3, 4, 6):  # x y z, then a weight or a colour
        raise ValueError(f"{len(fields)} numbers; must be 3, 4 with a weight or 6 with a colour")
    return [float(field) for field in fields][:3]


def _read_face(fields: list[str], vertex_count: int) -> list[int]:
    """Return indices counted from 0; ``fields`` count from 1, or backwards from -1."""
    if len(fields) < 3:
        raise ValueError(f"{len(fields)} vertices; must be at least 3")
    indices = [int(field.partition("/")[0]) for field in fields]
    for index in indices:
        if not 1 <= abs(index) <= vertex_count:
            raise ValueError(f"vertex {index}, but only {vertex_count} are defined before it")
    return [index - 1 if index > 0 else vertex_count + index for index in indices]
