"""Point clouds from occupancy grids."""

import numpy as np
from numpy.typing import NDArray


def surface_voxels(grid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which occupied voxels of ``grid`` [X, Y, Z] have an empty face neighbour.

    Outside the grid counts as empty.
    """
    padded = np.pad(grid, 1)
    enclosed = grid.copy()
    for axis in range(3):
        for shift in (-1, 1):
            enclosed &= np.roll(padded, shift, axis)[1:-1, 1:-1, 1:-1]
    return grid & ~enclosed


def draw_centres(
    grid: NDArray[np.bool_], count: int, stream: np.random.PCG64
) -> NDArray[np.float64]:
    """Draw ``count`` surface voxels of a grid that is not empty, in units of one voxel.

    Every voxel is drawn at most once more than any other, so that a cloud of as many points as
    there are surface voxels holds each of them.

    Returns:
        Centres [count, 3].
    """
    centres = np.argwhere(surface_voxels(grid)).astype(np.float64) + 0.5
    rounds = -(-count // len(centres))
    orders = np.argsort(stream.random_raw((rounds, len(centres))), axis=1, kind="stable")
    return centres[orders.ravel()[:count]]
