"""Wait for a process as long as it gets on, however slow the machine is."""

import contextlib
import subprocess
import time
from pathlib import Path

STALLED_S = 300
"""The longest quiet time of a run that is well: a node of a cluster imports PyTorch, for which
``repro.execution.cluster`` allows as much. A busy machine makes the whole longer, and no part of it
quieter: a training run leaves a checkpoint every epoch."""


def wait_while_it_gets_on(
    process: "subprocess.Popen[str]", place: Path, stalled_s: float = STALLED_S
) -> int:
    """Wait for ``process`` to end, and return its status.

    Raises:
        TimeoutError: no file below ``place`` was written for ``stalled_s``; the process is killed.
    """
    seen, last = _state(place), time.monotonic()
    while process.poll() is None:
        if (now := _state(place)) != seen:
            seen, last = now, time.monotonic()
        if time.monotonic() - last > stalled_s:
            process.kill()
            process.wait()
            msg = f"nothing was written below {place} for {stalled_s} s"
            raise TimeoutError(msg)
        time.sleep(0.05)
    return process.returncode


def _state(place: Path) -> tuple[int, int, int]:
    """Return how many files there are, the newest time of one, and their size."""
    count = newest = size = 0
    for path in place.rglob("*"):
        with contextlib.suppress(OSError):  # it is gone again
            status = path.stat()
            count, size = count + 1, size + status.st_size
            newest = max(newest, status.st_mtime_ns)
    return count, newest, size
