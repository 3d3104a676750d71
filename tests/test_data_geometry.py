"""OFF and OBJ files against trimesh's readers, and surface sampling against closed forms."""

import io

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from repro.data.geometry import (
    Mesh,
    point_cloud,
    read_obj,
    read_off,
    sample_surface,
    to_unit_ball,
    uniform,
)

OFF = """OFF
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
OBJ = """# a comment
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
READERS = {"off": read_off, "obj": read_obj}


def as_mesh(mesh: trimesh.Trimesh) -> Mesh:
    return Mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces))


def area(mesh: Mesh) -> float:
    return float(trimesh.Trimesh(*mesh, process=False).area)


@st.composite
def meshes(draw: st.DrawFn) -> trimesh.Trimesh:
    coordinate = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
    vertices = draw(st.lists(st.tuples(*[coordinate] * 3), min_size=3, max_size=12))
    index = st.integers(0, len(vertices) - 1)
    faces = draw(st.lists(st.tuples(*[index] * 3), min_size=1, max_size=20))
    return trimesh.Trimesh(vertices, faces, process=False)


@given(meshes(), st.sampled_from(list(READERS)))
def test_reads_back_what_trimesh_writes(mesh: trimesh.Trimesh, form: str) -> None:
    ours = READERS[form](mesh.export(file_type=form).encode())
    np.testing.assert_allclose(ours.vertices, mesh.vertices, atol=1e-7)
    np.testing.assert_array_equal(ours.faces, mesh.faces)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("off", OFF),
        ("off", OFF.replace("OFF\n", "OFF")),
        ("off", OFF.replace("OFF\n", "OFF ")),
        ("off", OFF.replace("\n", "\r\n")),
        ("off", OFF.replace("OFF\n", "# from a scanner\nOFF # magic\n\n# counts\n")),
        ("off", OFF.replace("1 0 0\n", "\n1 0 0 # second vertex\n\n")),
        ("off", OFF.rstrip("\n")),
        ("off", OFF.replace("3 1 2 3", "3 1 2 3  0.1 0.2 0.3")),
        ("obj", OBJ),
        ("obj", OBJ.replace("\n", "\r\n")),
        ("obj", OBJ.replace("f 2 3 4", "f 2/1 3/1 4/1")),
        ("obj", OBJ.replace("f 2 3 4", "f 2//1 3//1 4//1")),
        ("obj", OBJ.replace("f 2 3 4", "vn 0 0 1\nvt 0 0\nf 2/1/1 3/1/1 4/1/1")),
        ("obj", OBJ.replace("v 1 0 0", "v 1 0 0 1.0")),
        ("obj", OBJ.replace("v 1 0 0", "v 1 0 0 0.2 0.4 0.6")),
    ],
)
def test_reads_every_common_form_of_rows(form: str, text: str) -> None:
    ours = READERS[form](text.encode())
    reference = trimesh.load(io.BytesIO(OFF.encode()), file_type="off", process=False)
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
    mesh = read_off(square_and_pentagon.encode())
    assert mesh.faces.shape == (5, 3)
    assert area(mesh) == pytest.approx(4 + 3.5)
    mesh = read_obj(b"v 0 0 0\nv 2 0 0\nv 2 2 0\nv 1 3 0\nv 0 2 0\nf 1 2 3 4 5\n")
    assert mesh.faces.shape == (3, 3)
    assert area(mesh) == pytest.approx(5)


def test_uniform_numbers_are_those_of_numpys_generator() -> None:
    ours = uniform(np.random.PCG64((3, 1)), 4, 5)
    np.testing.assert_array_equal(ours, np.random.default_rng((3, 1)).random((4, 5)))


def test_faces_of_a_box_are_hit_in_proportion_to_their_area() -> None:
    sides = np.array([1.0, 2.0, 4.0])
    box = as_mesh(trimesh.creation.box(extents=sides))
    points = sample_surface(box, 40_000, np.random.PCG64(0))
    on_side = np.isclose(np.abs(points), sides / 2)
    assert (on_side.sum(axis=1) == 1).all()
    areas = sides.prod() / sides
    np.testing.assert_allclose(on_side.mean(axis=0), areas / areas.sum(), atol=0.01)


def test_points_fill_a_triangle_uniformly() -> None:
    """The mean and second moments of a uniform distribution on a triangle have closed forms."""
    mesh = Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]]))
    x, y, z = sample_surface(mesh, 100_000, np.random.PCG64(1)).T
    assert (z == 0).all()
    assert ((x >= 0) & (y >= 0) & (x + y <= 1 + 1e-12)).all()
    assert x.mean() == pytest.approx(1 / 3, abs=0.005)
    assert (x * x).mean() == pytest.approx(1 / 6, abs=0.005)
    assert (x * y).mean() == pytest.approx(1 / 12, abs=0.005)


def test_triangles_without_area_are_never_hit() -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [9, 9, 9]])
    faces = np.array([[3, 3, 3], [0, 1, 2], [3, 3, 3], [0, 3, 3]])
    points = sample_surface(Mesh(vertices, faces), 1000, np.random.PCG64(0))
    assert points.max() <= 1


def test_a_cloud_has_zero_centroid_and_unit_radius_and_is_repeatable() -> None:
    mesh = as_mesh(trimesh.creation.cylinder(radius=3, height=500))
    cloud = point_cloud(mesh, 1024, (7, 0, 3))
    assert cloud.shape == (1024, 3)
    assert cloud.dtype == np.float32
    np.testing.assert_allclose(cloud.mean(axis=0), 0, atol=1e-6)
    assert np.linalg.norm(cloud, axis=1).max() == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(cloud, point_cloud(mesh, 1024, (7, 0, 3)))
    assert not np.array_equal(cloud, point_cloud(mesh, 1024, (7, 0, 4)))


@given(st.floats(0.01, 100), st.tuples(*[st.floats(-1e3, 1e3)] * 3))
def test_normalising_takes_out_scale_and_place(
    scale: float, shift: tuple[float, float, float]
) -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    moved = to_unit_ball(points * scale + shift)
    np.testing.assert_allclose(moved, to_unit_ball(points), atol=1e-9)
