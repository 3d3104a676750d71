"""The OBJ reader against trimesh's, and on damaged files."""

import io

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from repro.data.geometry.mesh import Mesh, MeshError
from repro.data.geometry.obj import read_obj

TETRAHEDRON = """# a comment
o tetrahedron
v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""


def read(text: str) -> Mesh:
    return read_obj(text.encode(), "bad.obj")


@st.composite
def meshes(draw: st.DrawFn) -> trimesh.Trimesh:
    coordinate = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
    vertices = draw(st.lists(st.tuples(*[coordinate] * 3), min_size=3, max_size=12))
    index = st.integers(0, len(vertices) - 1)
    faces = draw(st.lists(st.tuples(*[index] * 3), min_size=1, max_size=20))
    return trimesh.Trimesh(vertices, faces, process=False)


@given(meshes())
def test_reads_back_what_trimesh_writes(mesh: trimesh.Trimesh) -> None:
    ours = read_obj(mesh.export(file_type="obj").encode(), "mesh.obj")
    np.testing.assert_allclose(ours.vertices, mesh.vertices, atol=1e-7)
    np.testing.assert_array_equal(ours.faces, mesh.faces)


@pytest.mark.parametrize(
    "text",
    [
        TETRAHEDRON,
        TETRAHEDRON.replace("\n", "\r\n"),
        TETRAHEDRON.replace("f 2 3 4", "f -3 -2 -1"),
        TETRAHEDRON.replace("f 2 3 4", "f 2/1 3/1 4/1"),
        TETRAHEDRON.replace("f 2 3 4", "f 2//1 3//1 4//1"),
        TETRAHEDRON.replace("f 2 3 4", "vn 0 0 1\nvt 0 0\nf 2/1/1 3/1/1 4/1/1 # last"),
        TETRAHEDRON.replace("v 1 0 0", "v 1 0 0 1.0"),
        TETRAHEDRON.replace("v 1 0 0", "v 1 0 0 0.2 0.4 0.6"),
    ],
)
def test_reads_every_common_form_of_rows(text: str) -> None:
    ours = read(text)
    reference = trimesh.load(io.BytesIO(TETRAHEDRON.encode()), file_type="obj", process=False)
    np.testing.assert_array_equal(ours.vertices, reference.vertices)
    np.testing.assert_array_equal(ours.faces, reference.faces)


def test_polygons_keep_their_area() -> None:
    mesh = read("v 0 0 0\nv 2 0 0\nv 2 2 0\nv 1 3 0\nv 0 2 0\nf 1 2 3 4 5\n")
    assert mesh.faces.shape == (3, 3)
    assert mesh.triangle_areas().sum() == pytest.approx(5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty mesh"),
        ("OFF\n4 4 6\n", "line 1: cannot read 'OFF': unknown keyword"),
        (TETRAHEDRON.partition("f")[0], "empty mesh .4 vertices, 0 faces"),
        (TETRAHEDRON.replace("v 1 0 0", "v 1 0"), "line 4: cannot read 'v 1 0': 2 numbers"),
        (TETRAHEDRON.replace("v 1 0 0", "v 1 zero 0"), "line 4: cannot read .*zero"),
        (TETRAHEDRON.replace("v 1 0 0", "v 1 nan 0"), r"vertex 1 is \[1.0, nan, 0.0\]"),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3 5"), "line 10: .*vertex 5, .*only 4 "),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3 0"), "line 10: .*vertex 0, .*only 4 "),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3 -5"), "line 10: .*vertex -5, .*only 4 "),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3"), "line 10: .*2 vertices; must be at least 3"),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3 x"), "line 10: cannot read"),
        (TETRAHEDRON.replace("f 2 3 4", "f 2 3 4.5"), "line 10: cannot read"),
        (TETRAHEDRON[:-4], "line 10: .*'f 2'"),
    ],
)
def test_refuses_damaged_files(text: str, message: str) -> None:
    with pytest.raises(MeshError, match=f"bad.obj.*{message}"):
        read(text)


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_the_clear_error(data: bytes) -> None:
    with pytest.raises(MeshError, match="noise"):
        read_obj(data, "noise")


@given(st.data())
def test_a_damaged_character_gives_a_mesh_or_the_clear_error(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(TETRAHEDRON) - 1))
    replacement = data.draw(st.sampled_from(list("0123456789-+./eE#vfn \n\t\r_\x00")) | st.just(""))
    damaged = TETRAHEDRON[:position] + replacement + TETRAHEDRON[position + 1 :]
    try:
        mesh = read(damaged)
    except MeshError:
        return
    assert mesh.faces.shape[1] == 3
    assert mesh.faces.max() < len(mesh.vertices)
