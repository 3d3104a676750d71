"""The figure: losses by epoch."""

from repro.artifacts.losses import figure as fig2

FIGURES = {"fig2": fig2}
