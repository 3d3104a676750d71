"""Object File Format (.off), as ModelNet distributes it.

Format: http://www.geomview.org/docs/html/OFF.html, the ASCII form without colours or normals of
vertices. ModelNet40 has files whose first line runs into the second (``OFF490 518 0``); these are
read. Any other departure from the format is refused, so a damaged file cannot pass as a smaller
mesh.
"""

import re

import numpy as np
from numpy.typing import NDArray

from repro.data.geometry.mesh import Mesh, MeshError, fan

_HEADER = re.compile(r"OFF\s*(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})")
"""The magic word, then the numbers of vertices, faces and edges; the last is never used."""


def read_off(data: bytes, name: str) -> Mesh:
    """Read one mesh; polygons become triangle fans and colours of faces are dropped.

    Args:
        data: the whole file.
        name: its name in error messages, usually its path.

    Raises:
        MeshError: the file is not OFF, is truncated, has extra rows or an unreadable number, or
            `Mesh` refuses the result.
    """
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        msg = f"{name}: byte {error.start} is not ASCII; binary OFF is not supported"
        raise MeshError(msg) from error
    uncommented = re.sub(r"#[^\n]*", "", text)
    lines = [line for line in uncommented.split("\n") if line.strip()]
    if lines and lines[0].strip() == "OFF":
        lines[:2] = [" ".join(lines[:2])]
    header, *body = lines or [""]
    match = _HEADER.fullmatch(header.strip())
    if match is None:
        msg = f"{name}: the header is {header.strip()[:40]!r}; must be OFF and three counts"
        raise MeshError(msg)
    vertex_count, face_count = int(match[1]), int(match[2])
    if len(body) != vertex_count + face_count:
        msg = (
            f"{name}: {len(body)} rows follow the header, which promises {vertex_count} vertices "
            f"and {face_count} faces; the file is truncated or damaged, get it again"
        )
        raise MeshError(msg)
    vertices = np.empty((0, 3))
    if vertex_count:
        try:
            vertices = np.loadtxt(body[:vertex_count], dtype=np.float64, comments=None, ndmin=2)
        except ValueError as error:
            msg = f"{name}: cannot read the vertices: {error}"
            raise MeshError(msg) from error
    if vertices.shape[1] != 3:
        msg = f"{name}: a vertex has {vertices.shape[1]} coordinates; must be 3"
        raise MeshError(msg)
    return Mesh(name, vertices, _read_faces(body[vertex_count:], name))


def _read_faces(rows: list[str], name: str) -> NDArray[np.int64]:
    if not rows:
        return np.empty((0, 3), np.int64)
    try:  # nearly every file has triangles only, and one call reads them all
        table = np.loadtxt(rows, dtype=np.int64, comments=None, ndmin=2)
        if table.shape[1] == 4 and (table[:, 0] == 3).all():
            return np.ascontiguousarray(table[:, 1:])
    except ValueError:
        pass  # the rows differ in length, or one is damaged
    triangles: list[tuple[int, int, int]] = []
    for number, row in enumerate(rows):
        fields = row.split()
        try:
            size = int(fields[0])
            polygon = [int(field) for field in fields[1 : size + 1]]
        except ValueError as error:
            msg = f"{name}: cannot read face {number}, {row[:40]!r}: {error}"
            raise MeshError(msg) from error
        if size < 3 or len(polygon) != size:
            msg = f"{name}: face {number}, {row[:40]!r}, must be a count >= 3 and as many vertices"
            raise MeshError(msg)
        triangles += fan(polygon)
    try:
        return np.array(triangles, np.int64)
    except OverflowError as error:
        msg = f"{name}: a face names a vertex beyond 64 bits; the file is damaged"
        raise MeshError(msg) from error
