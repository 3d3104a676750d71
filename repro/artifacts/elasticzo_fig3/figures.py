"""The figure: losses by epoch."""

from repro.artifacts.losses import figure as fig3

FIGURES = {"fig3": fig3}
