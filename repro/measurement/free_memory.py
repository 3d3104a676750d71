"""How much memory there is to take."""

import os
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def free_bytes() -> int:
    """Return what processes can still take without swapping, here and in this container.

    Where the system does not tell, as on macOS, it is all the machine has.
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
    """Return the rest of the limit of cgroup v2, if there is one; cached files can go."""
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
