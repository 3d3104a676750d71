"""The figure as published, and every account of its bars."""

from functools import partial

from repro.artifacts.memory_figure import figure

FIGURES = {"fig4": partial(figure, precision="fp32")}
