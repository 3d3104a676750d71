"""Names of number formats and attention kernels, shared by configurations and models."""

from typing import Literal

Dtype = Literal["float32", "float16", "bfloat16"]

BYTES: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of one number in each format."""

Attention = Literal["eager", "sdpa"]
"""Eager attention keeps the [B, H, N, N] score matrix; SDPA's kernels never form it."""

ATTENTIONS: tuple[Attention, ...] = ("eager", "sdpa")
