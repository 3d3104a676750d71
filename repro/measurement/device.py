"""Where tensors live."""

from typing import Literal

from repro.core.errors import UsageError

Device = Literal["cpu", "cuda"]


def require_device(device: Device) -> None:
    """Raise ``UsageError`` if ``device`` does not exist here."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        msg = "device cuda: PyTorch finds no CUDA device here; use --device cpu"
        raise UsageError(msg)
