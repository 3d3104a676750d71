"""The axes and rows that the figures of this artifact share."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

AXES = {"context": "context length N", "layers": "layers L", "hidden": "hidden dimension D"}
METHODS = {"bp": "BP without checkpointing", "bp_checkpoint": "BP with checkpointing"}
"""Rows of panels."""


def label_powers_of_two(panel: Axes, values: Sequence[int]) -> None:
    """Label the horizontal axis with powers of two over the range of ``values``, at most six."""
    first, last = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    panel.set_xticks([2**power for power in range(first, last + 1, -(-(last - first) // 5) or 1)])
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
