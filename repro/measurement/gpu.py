"""Read an NVIDIA GPU's state from its driver."""

import subprocess


def driver() -> str | None:
    """Return the driver's version, or ``None`` without an NVIDIA GPU."""
    found = _query("driver_version")
    return found[0] if found else None


def clocks() -> dict[str, int]:
    """Return the present clocks of the first GPU in MHz, by unit; empty without a GPU."""
    found = _query("clocks.sm", "clocks.mem")
    return {name: int(value) for name, value in zip(("sm", "memory"), found, strict=False)}


def _query(*names: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    first = done.stdout.partition("\n")[0]
    return [value.strip() for value in first.split(",")]
