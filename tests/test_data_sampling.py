"""Surface sampling against closed forms, and what cannot be sampled."""

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from repro.data.geometry.mesh import (
    Mesh,
    MeshError,
    normalise,
    point_cloud,
    sample_surface,
    uniform,
)


def as_mesh(mesh: trimesh.Trimesh) -> Mesh:
    return Mesh("shape", np.asarray(mesh.vertices), np.asarray(mesh.faces))


def test_uniform_numbers_are_those_of_numpys_generator() -> None:
    ours = uniform(np.random.PCG64((3, 1)), 4, 5)
    np.testing.assert_array_equal(ours, np.random.default_rng((3, 1)).random((4, 5)))


def test_triangle_areas_agree_with_trimesh() -> None:
    mesh = trimesh.creation.torus(1.0, 0.3)
    np.testing.assert_allclose(as_mesh(mesh).triangle_areas(), mesh.area_faces, rtol=1e-12)


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
    mesh = Mesh("triangle", np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]]))
    x, y, z = sample_surface(mesh, 100_000, np.random.PCG64(1)).T
    assert (z == 0).all()
    assert ((x >= 0) & (y >= 0) & (x + y <= 1 + 1e-12)).all()
    assert x.mean() == pytest.approx(1 / 3, abs=0.005)
    assert (x * x).mean() == pytest.approx(1 / 6, abs=0.005)
    assert (x * y).mean() == pytest.approx(1 / 12, abs=0.005)


def test_triangles_without_area_are_never_hit() -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [9, 9, 9]])
    faces = np.array([[3, 3, 3], [0, 1, 2], [3, 3, 3], [0, 3, 3]])
    points = sample_surface(Mesh("mixed", vertices, faces), 1000, np.random.PCG64(0))
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
    moved = normalise(points * scale + shift, "moved")
    np.testing.assert_allclose(moved, normalise(points, "original"), atol=1e-9)


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], "flat: the area of the surface is 0.0"),
        ([[5, 5, 5], [5, 5, 5], [5, 5, 5]], "flat: the area of the surface is 0.0"),
    ],
)
def test_a_mesh_without_area_is_refused(vertices: list[list[int]], message: str) -> None:
    mesh = Mesh("flat", np.array(vertices, np.float64), np.array([[0, 1, 2]]))
    with pytest.raises(MeshError, match=message):
        point_cloud(mesh, 16, (0,))


def test_a_mesh_whose_area_overflows_is_refused() -> None:
    vertices = np.array([[0, 0, 0], [1e200, 0, 0], [0, 1e200, 0]])
    with pytest.raises(MeshError, match="the area of the surface is inf"):
        point_cloud(Mesh("huge", vertices, np.array([[0, 1, 2]])), 16, (0,))


def test_coinciding_points_are_refused() -> None:
    with pytest.raises(MeshError, match=r"dot: the radius of the point cloud is 0\.0"):
        normalise(np.ones((8, 3)), "dot")
