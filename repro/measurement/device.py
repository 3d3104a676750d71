"""The device on which tensors live, and its memory."""

import os
from typing import Literal

from repro.core.errors import UsageError

Device = Literal["cpu", "cuda"]


def require_device(device: Device) -> None:
    """Raise ``UsageError`` if ``device`` does not exist here."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        msg = "device cuda: PyTorch finds no CUDA device here; use --device cpu"
        raise UsageError(msg)


def memory_of(device: Device) -> int:
    """Return the total memory of ``device`` in bytes."""
    import torch

    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_same_bits() -> None:
    """Make PyTorch use deterministic kernels, and refuse operations that have none.

    On the host all kernels used here are deterministic anyway. Call this before CUDA is used.
    """
    import torch
    from torch.utils import deterministic

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
    setattr(deterministic, "fill_uninitialized_memory", False)  # noqa: B010 - not in its types
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False
