"""The suspected causes: what the paper leaves open, and the values it is changed to."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cause:
    """One suspected cause."""

    name: str
    """As drawn."""
    setting: str
    """What is changed; ``start_`` names a setting of pre-training."""
    values: tuple[Any, ...]
    """The table's own may be among them; it is always run."""


BATCH = Cause("batch size", "batch", (32, 256))
"""The batches of the tables in float32 and of training from scratch in integers: for every row of
Table 2 in INT8."""
OF_INTEGER_TUNING = (
    Cause("batch size", "batch", (32, 64, 256, 1024)),
    Cause("r_max", "r_max", (3, 7, 15, 31, 63)),
    Cause("p_zero", "p_zero", (0.33, 0.9, 0.97)),
    Cause("sign", "precision", ("int8", "int8s")),
    Cause("restore", "restore", ("clip", "exact")),
    Cause("activations", "activations", ("plus", "minus")),
)
OF_FLOAT_TUNING = (
    Cause("batch size", "batch", (8, 16, 32, 64)),
    Cause("learning rate", "lr", (0.016, 0.032, 0.064)),
    Cause("g_clip", "clip", (0.025, 0.05, 0.1)),
    Cause("epsilon", "eps", (1e-3, 3e-3, 1e-2)),
    Cause("decay", "decay", (0.8, 1.0)),
    Cause("activations", "activations", ("plus", "minus", "mean")),
    Cause("pre-training's rate", "start_lr", (3e-4, 1e-3, 3e-3)),
    Cause("pre-training's batch", "start_batch", (32, 64, 128, 256)),
)
OF_INTEGER_TRAINING = (
    Cause("r_max", "r_max", (3, 7, 15)),
    Cause("batch size", "batch", (64, 256)),
    Cause("activations", "activations", ("plus", "minus")),
)
CAUSES = tuple(
    {
        cause.setting: cause
        for causes in (OF_INTEGER_TRAINING, OF_FLOAT_TUNING, OF_INTEGER_TUNING)
        for cause in causes
    }.values()
)
"""Each setting that is changed anywhere, once."""
SETTINGS = tuple(cause.setting for cause in CAUSES if cause.setting != "precision")
"""Coordinates of the runs beside those of the tables."""
