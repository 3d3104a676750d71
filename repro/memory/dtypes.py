"""Number formats of weights and activations, and their size."""

from typing import Literal

Dtype = Literal["float32", "float16", "bfloat16"]

BYTES: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
"""b of the formulas for each format."""
