"""The quantities in claims on trained accuracies: one cell of a table, or gaps between cells.

A cell is one row and column of a table: all seeds of one data set, precision and method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Point = Mapping[str, str | float | None]
"""The coordinates of a cell, of a timed epoch or of a training step, as in its records."""
Key = frozenset[tuple[str, str | float | None]]


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy of one cell, in per cent."""

    point: Point


@dataclass(frozen=True)
class Gaps:
    """Accuracy of one cell minus the accuracy of another, in percentage points, for each pair."""

    pairs: tuple[tuple[Point, Point], ...]
    """The subtracted cell, and the cell it is subtracted from."""
    pick: Literal["smallest", "largest", "least certain"] = "smallest"
    """Which of the gaps counts: the smallest or largest of each seed; or the least certain by all
    seeds: one whose whole interval is below 0, else the one whose interval reaches farthest below
    0."""


Quantity = Accuracy | Gaps


def key(point: Point) -> Key:
    """Return a dictionary key for the coordinates, independent of their order."""
    return frozenset(point.items())


def order(*points: Point) -> Gaps:
    """Return the gaps between neighbours; the least certain is positive if ``points`` ascend."""
    return Gaps(tuple(pairwise(points)), "least certain")
