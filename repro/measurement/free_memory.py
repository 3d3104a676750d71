"""Find out how much memory is free."""

import os
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def free_bytes() -> int:
    """Return the bytes that processes can still allocate without swapping, in this container too.

    Where the system does not say, as on macOS, return the machine's whole memory.
    """
    return min([_of_machine(), *_of_container()])


def _of_machine() -> int:
    try:
        lines = _MACHINE.read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    values = dict(line.split(":", 1) for line in lines)
    return int(values["MemAvailable"].split()[0]) * 1024


def _of_container() -> list[int]:
    """Return the unused part of the cgroup v2 limit, if any; cached files count as free."""
    try:
        limit = (_CONTAINER / "memory.max").read_text().strip()
        taken = int((_CONTAINER / "memory.current").read_text())
        lines = (_CONTAINER / "memory.stat").read_text().splitlines()
    except OSError:
        return []
    if limit == "max":
        return []
    cached = int(dict(line.split() for line in lines)["inactive_file"])
    return [int(limit) - taken + cached]
