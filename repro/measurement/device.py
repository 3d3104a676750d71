"""The device on which tensors live: its memory, and an NVIDIA GPU's driver and clocks."""

import os
import subprocess
from pathlib import Path
from typing import Literal

from repro.core.errors import UsageError

Device = Literal["cpu", "cuda"]

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def require_device(device: Device) -> None:
    """Raise ``UsageError`` if ``device`` does not exist here."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: PyTorch finds no CUDA device here; use --device cpu")


def memory_of(device: Device) -> int:
    """Return the total memory of ``device`` in bytes."""
    if device == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_bytes() -> int:
    """Return the bytes that processes can still allocate without swapping, in this container too.

    Where the system does not say, as on macOS, return the machine's whole memory. Of a cgroup v2
    limit the unused part counts; cached files count as free.
    """
    try:
        lines = _MACHINE.read_text().splitlines()
        free = int(dict(line.split(":", 1) for line in lines)["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # no such file, or a kernel or container that does not say
        free = memory_of("cpu")
    try:
        limit = (_CONTAINER / "memory.max").read_text().strip()
        taken = int((_CONTAINER / "memory.current").read_text())
        lines = (_CONTAINER / "memory.stat").read_text().splitlines()
    except OSError:
        return free
    if limit == "max":
        return free
    cached = int(dict(line.split() for line in lines)["inactive_file"])
    return min(free, int(limit) - taken + cached)


def require_same_bits() -> None:
    """Make PyTorch use deterministic kernels, and refuse operations that have none.

    On the host all kernels used here are deterministic anyway. Call this before CUDA is used.
    """
    import torch
    from torch.utils import deterministic

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
    # else PyTorch fills all new memory, which costs time and changes only unwritten values
    setattr(deterministic, "fill_uninitialized_memory", False)  # noqa: B010 - not in its types
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False  # else kernels are chosen by their time


def driver() -> str | None:
    """Return the driver's version, or ``None`` without an NVIDIA GPU."""
    found = _query("driver_version")
    return found[0] if found else None


def clocks() -> dict[str, int]:
    """Return the present clocks of the first GPU in MHz, by unit; empty without a GPU."""
    found = _query("clocks.sm", "clocks.mem")
    named = zip(("sm", "memory"), found, strict=False)
    return {name: int(value) for name, value in named if value.isdigit()}  # else "[N/A]"


def _query(*names: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    first = done.stdout.partition("\n")[0]
    return [value.strip() for value in first.split(",")]
