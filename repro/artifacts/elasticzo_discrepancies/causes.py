"""Declare the suspected causes that the paper leaves open: settings, and the test images."""

from typing import Any

from repro.artifacts.shared.ablation import Axis
from repro.core.names import ZEROTH_ORDER, MethodName

_WITH_BP: tuple[MethodName, ...] = ("cls2", "cls1", "full_bp")

BATCH = Axis("batch size", "batch", (32, 64, 128, 256))
"""Batch sizes tried for every row of Table 2 in INT8, from the tables' size in float32 to the size
of training from scratch in integers."""
OF_INTEGER_TUNING = (
    Axis("batch size", "batch", (32, 64, 256, 1024)),
    Axis("r_max", "r_max", (3, 7, 15, 31, 63)),
    Axis("p_zero", "p_zero", (0.33, 0.9, 0.97)),
    Axis("sign", "precision", ("int8", "int8_star")),
    Axis("restore", "restore", ("clip", "exact")),
    Axis("activations", "activations", ("plus", "minus"), _WITH_BP),
)
OF_FLOAT_TUNING = (
    Axis("batch size", "batch", (8, 16, 32, 64)),
    Axis("learning rate", "lr", (0.016, 0.032, 0.064)),
    Axis("g_clip", "clip", (0.025, 0.05, 0.1)),
    Axis("epsilon", "eps", (1e-3, 3e-3, 1e-2)),
    Axis("decay", "decay", (0.8, 1.0)),
    Axis("activations", "activations", ("plus", "minus", "mean"), _WITH_BP),
    Axis("pre-training's rate", "start_lr", (3e-4, 1e-3, 3e-3)),
    Axis("pre-training's batch", "start_batch", (32, 64, 128, 256)),
)
OF_INTEGER_TRAINING = (
    Axis("r_max", "r_max", (3, 7, 15, 31)),
    Axis("batch size", "batch", (64, 256)),
    Axis("activations", "activations", ("plus", "minus"), _WITH_BP),
)
ENDS: tuple[MethodName, ...] = ("full_zo", "full_bp")
"""The methods without backpropagation and without a zeroth-order part."""
_OF_POINTNET = (
    Axis(
        "batch norm",
        "batch_norm",
        ("frozen", "frozen, He's weights"),
        base="batch",
        # without normalisation PyTorch's initial weights let the activations shrink layer by layer
        changes={"frozen, He's weights": {"batch_norm": "frozen", "initial_weights": "he"}},
    ),
    Axis(
        "initial weights",
        "initial_weights",
        ("He's",),
        ENDS,
        base="PyTorch's",
        changes={"He's": {"initial_weights": "he"}},
    ),
)
OF_CLOUDS = (
    *_OF_POINTNET,
    Axis("learning rate", "lr", (0.002, 0.008, 0.032, 0.128)),
    Axis("batch size", "batch", (8, 128), ENDS),
    Axis("epsilon", "eps", (1e-3, 3e-3, 1e-2), ZEROTH_ORDER),
)
OF_LONG_CLOUDS = (
    Axis("learning rate", "lr", (0.002, 0.128), ("full_bp",)),
    Axis("epsilon", "eps", (1e-3,), ("full_zo",)),
)
"""Values of ``OF_CLOUDS``: the learning rates with which short runs of Full BP fell furthest below
Table 1's setting, and the epsilon with which those of Full ZO rose furthest above it."""
CAUSES = tuple(
    {
        axis.setting: axis
        for axes in (OF_INTEGER_TRAINING, OF_FLOAT_TUNING, OF_INTEGER_TUNING, _OF_POINTNET)
        for axis in axes
    }.values()
)
"""Every changed setting once."""
SETTINGS = tuple(axis.setting for axis in CAUSES if axis.setting != "precision")
"""Coordinates of the runs that the tables' points do not have."""

TABLE_2: dict[str, Any] = {
    "images": "drawn",
    "turn": "counter-clockwise",
    "interpolation": "bilinear",
}
"""The images of our Table 2; the values are those of ``RotatedImages``."""
FIRST = {**TABLE_2, "images": "first"}
VIEWS = {
    "ours": TABLE_2,
    "first 1,024": FIRST,
    "all 10,000": {**TABLE_2, "images": "all"},
    "clockwise": {**TABLE_2, "turn": "clockwise"},
    "nearest pixel": {**TABLE_2, "interpolation": "nearest"},
}
"""Sets of evaluated images by display name: ours, and sets that differ in one respect."""
