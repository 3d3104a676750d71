"""The figure: losses by epoch."""

from repro.artifacts.losses import figure as fig3

FIGURES = {"fig3": fig3}
CAPTIONS = {
    "fig3": "Train and test loss by epoch for four methods on MNIST and Fashion-MNIST",
}
