"""Point clouds from occupancy grids."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from repro.data.geometry.voxels import draw_centres, surface_voxels


def solid_cube(side: int, size: int = 12) -> np.ndarray:
    grid = np.zeros((size, size, size), bool)
    grid[2 : 2 + side, 2 : 2 + side, 2 : 2 + side] = True
    return grid


def test_the_surface_of_a_cube_is_its_hull() -> None:
    for side in (1, 2, 3, 6):
        inner = max(side - 2, 0)
        assert surface_voxels(solid_cube(side)).sum() == side**3 - inner**3


def test_the_border_of_the_grid_counts_as_surface() -> None:
    assert surface_voxels(np.ones((4, 4, 4), bool)).sum() == 4**3 - 2**3


@given(st.integers(1, 7), st.integers(1, 500))
def test_every_surface_voxel_is_drawn_equally_often(side: int, count: int) -> None:
    grid = solid_cube(side)
    centres = draw_centres(grid, count, np.random.PCG64(0))
    assert centres.shape == (count, 3)
    drawn, times = np.unique(np.floor(centres).astype(int), axis=0, return_counts=True)
    assert surface_voxels(grid)[tuple(drawn.T)].all()
    assert times.max() - times.min() <= 1
    assert len(drawn) == min(count, surface_voxels(grid).sum())
