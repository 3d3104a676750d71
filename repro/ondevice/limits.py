"""Limits of the engine that do not depend on the network (``check`` of ``cpp/layer.cpp``)."""

from repro.core.validation import require_whole

LARGEST_BATCH = 2**20
MOST_THREADS = 1024


def require_machine(capacity: int, threads: int) -> None:
    """Raise ``UsageError`` unless the engine can have so many samples in a batch, and threads."""
    require_whole("capacity", capacity, 1, LARGEST_BATCH)
    require_whole("threads", threads, 1, MOST_THREADS)
