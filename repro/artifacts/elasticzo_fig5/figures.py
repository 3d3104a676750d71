"""The figure as published, and every account of its bars."""

from functools import partial

from repro.artifacts.memory_figure import CAPTION, figure

FIGURES = {"fig5": partial(figure, precision="int8")}
CAPTIONS = {"fig5": CAPTION}
