"""The figure: losses by epoch."""

from repro.artifacts.losses import figure as fig2

FIGURES = {"fig2": fig2}
CAPTIONS = {
    "fig2": "Train and test loss by epoch for four methods on MNIST and Fashion-MNIST",
}
