"""The figure as published, and every account of its bars."""

from functools import partial

from repro.artifacts.memory_figure import CAPTION, figure

FIGURES = {"fig6": partial(figure, precision="fp32")}
CAPTIONS = {"fig6": CAPTION}
