"""Limits of the engine for any network (``check`` of ``cpp/layer.cpp``)."""

from repro.core.errors import UsageError
from repro.core.validation import require_positive_int

LARGEST_BATCH = 2**20
MOST_THREADS = 1024


def require_machine(capacity: int, threads: int) -> None:
    """Raise ``UsageError`` unless the engine can have so many samples in a batch, and threads."""
    for name, value, most in (
        ("capacity", capacity, LARGEST_BATCH),
        ("threads", threads, MOST_THREADS),
    ):
        if require_positive_int(name, value) > most:
            msg = f"{name} = {value}: must be from 1 to {most}"
            raise UsageError(msg)
