"""Commands of the suite that are ended in the middle, and what they leave behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ORPHANED_S = 2
"""How long after a command's end a process of its session counts as an orphan."""
_TEMPORARY = re.compile(r"\..+\.repro-tmp-[a-z0-9_]{8}")


def begin(arguments: list[str], environment: dict[str, str], **options: Any) -> Any:
    """Begin ``repro`` with ``arguments`` in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "repro", *arguments],
        env={**os.environ, **environment},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@contextmanager
def begun(arguments: list[str], environment: dict[str, str], **options: Any) -> Iterator[Any]:
    """Begin a command, and leave nothing of it running at the end of the block."""
    process = begin(arguments, environment, **options)
    try:
        yield process
    finally:
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def session(leader: int) -> set[int]:
    """Return the processes of a session that still run, as Linux shows them."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(place.name))
    return found


def orphans(leader: int) -> set[int]:
    """Return the processes of a session that outlive its command by ``ORPHANED_S``."""
    end = time.monotonic() + ORPHANED_S
    while (left := session(leader)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def leftovers(*directories: Path) -> list[Path]:
    """Return what has the name of a temporary file or directory."""
    return [
        path
        for directory in directories
        for path in directory.rglob(".*")
        if _TEMPORARY.fullmatch(path.name)
    ]
