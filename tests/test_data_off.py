"""The OFF reader against trimesh's, on what ModelNet distributes and on damaged files."""

import io

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from repro.data.geometry.mesh import Mesh, MeshError
from repro.data.geometry.off import read_off

TETRAHEDRON = """OFF
4 4 6
0 0 0
1 0 0
0 1 0
0 0 1
3 0 2 1
3 0 1 3
3 0 3 2
3 1 2 3
"""


def read(text: str) -> Mesh:
    return read_off(text.encode(), "bad.off")


@st.composite
def meshes(draw: st.DrawFn) -> trimesh.Trimesh:
    coordinate = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
    vertices = draw(st.lists(st.tuples(*[coordinate] * 3), min_size=3, max_size=12))
    index = st.integers(0, len(vertices) - 1)
    faces = draw(st.lists(st.tuples(*[index] * 3), min_size=1, max_size=20))
    return trimesh.Trimesh(vertices, faces, process=False)


@given(meshes())
def test_reads_back_what_trimesh_writes(mesh: trimesh.Trimesh) -> None:
    ours = read_off(mesh.export(file_type="off").encode(), "mesh.off")
    np.testing.assert_allclose(ours.vertices, mesh.vertices, atol=1e-9)
    np.testing.assert_array_equal(ours.faces, mesh.faces)


@pytest.mark.parametrize(
    "text",
    [
        TETRAHEDRON,
        TETRAHEDRON.replace("OFF\n", "OFF"),
        TETRAHEDRON.replace("OFF\n", "OFF "),
        TETRAHEDRON.replace("\n", "\r\n"),
        TETRAHEDRON.replace("OFF\n", "# from a scanner\nOFF # magic\n\n# counts\n"),
        TETRAHEDRON.replace("1 0 0\n", "\n1 0 0 # second vertex\n\n"),
        TETRAHEDRON.rstrip("\n"),
        TETRAHEDRON.replace("3 1 2 3", "3 1 2 3  0.1 0.2 0.3"),
    ],
)
def test_tolerates_broken_headers_blank_lines_comments_and_colours(text: str) -> None:
    ours = read(text)
    reference = trimesh.load(io.BytesIO(TETRAHEDRON.encode()), file_type="off", process=False)
    np.testing.assert_array_equal(ours.vertices, reference.vertices)
    np.testing.assert_array_equal(ours.faces, reference.faces)


def test_polygons_keep_their_area() -> None:
    square_and_pentagon = """OFF 7 2 0
0 0 0
2 0 0
2 2 0
0 2 0
4 0 0
4 1 0
3 2 0
4 0 1 2 3
5 1 4 5 6 2
"""
    mesh = read(square_and_pentagon)
    assert mesh.faces.shape == (5, 3)
    assert mesh.triangle_areas().sum() == pytest.approx(4 + 3.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the header is ''"),
        ("OFF", "the header is 'OFF'"),
        ("PLY\n4 4 6\n", "the header is 'PLY'"),
        (TETRAHEDRON.replace("OFF", "COFF"), "the header is 'COFF'"),
        (TETRAHEDRON.replace("4 4 6", "4 4"), "the header is 'OFF 4 4'"),
        (TETRAHEDRON.replace("4 4 6", "-4 4 6"), "the header is 'OFF -4 4 6'"),
        (TETRAHEDRON.replace("4 4 6", f"{10**9} 4 6"), "the header is 'OFF 1000000000 4 6'"),
        (TETRAHEDRON.removesuffix("3 1 2 3\n"), "7 rows follow .* truncated"),
        (TETRAHEDRON + "3 1 2 3\n", "9 rows follow"),
        (TETRAHEDRON.replace("1 0 0", "1 0"), "cannot read the vertices.* columns changed"),
        (TETRAHEDRON.replace("0 1 0", "0 one 0"), "cannot read the vertices.*one"),
        (TETRAHEDRON.replace("0 1 0", "0 nan 0"), r"vertex 2 is \[0.0, nan, 0.0\]"),
        (TETRAHEDRON.replace("0 1 0", "0 1e999 0"), r"vertex 2 is \[0.0, inf, 0.0\]"),
        (TETRAHEDRON.replace("3 1 2 3", "3 1 2 4"), r"face 3 names .*\[1, 2, 4\].* 0 to 3"),
        (TETRAHEDRON.replace("3 1 2 3", "3 1 2 -1"), r"face 3 names .*\[1, 2, -1\]"),
        (TETRAHEDRON.replace("3 1 2 3", "3 1 2"), "face 3, '3 1 2', must be a count"),
        (TETRAHEDRON.replace("3 1 2 3", "2 1 2"), "face 3, '2 1 2', must be a count"),
        (TETRAHEDRON.replace("3 1 2 3", "3 1 2 2.5"), "cannot read face 3"),
        (TETRAHEDRON.replace("3 1 2 3", f"3 1 2 {10**20}"), "beyond 64 bits"),
        ("OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n", "empty mesh .3 vertices, 0 faces"),
        ("OFF\n0 0 0\n", "empty mesh .0 vertices"),
        ("OFF BINARY\n4 4 6\n", "the header is 'OFF BINARY'"),
    ],
)
def test_refuses_damaged_files(text: str, message: str) -> None:
    with pytest.raises(MeshError, match=f"bad.off: .*{message}"):
        read(text)


def test_refuses_bytes_that_are_no_text() -> None:
    with pytest.raises(MeshError, match="byte 4 is not ASCII"):
        read_off(b"OFF\n\xff\x00", "bad.off")


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_the_clear_error(data: bytes) -> None:
    with pytest.raises(MeshError, match="noise"):
        read_off(data, "noise")


@given(st.data())
def test_a_damaged_character_gives_a_mesh_or_the_clear_error(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(TETRAHEDRON) - 1))
    replacement = data.draw(st.sampled_from(list("0123456789-+.eE#nOF \n\t\r_\x00")) | st.just(""))
    damaged = TETRAHEDRON[:position] + replacement + TETRAHEDRON[position + 1 :]
    try:
        mesh = read(damaged)
    except MeshError:
        return
    assert mesh.faces.shape[1] == 3
    assert mesh.faces.max() < len(mesh.vertices)
