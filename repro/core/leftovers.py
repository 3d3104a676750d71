"""Temporary files and directories, locked by their owner so that leftovers can be recognised.

The kernel frees the lock when its owner ends, even if it is killed. An unlocked file is therefore a
leftover of a killed process, and the next process that writes there removes it. On a file system
without locks a leftover is recognised by its age.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.core.paths import cache_dir

_MARK = "repro-tmp"
"""Part of every name here, so that no file of a user's is taken for a leftover."""
_RANDOM = r"[a-z0-9_]{8}"
"""The random suffix that ``tempfile`` appends to names."""
_ABANDONED_S = 24 * 3600
"""Age of a leftover on a file system without locks; nothing takes a day to write."""
_OTHER_CODE_S = 30 * 24 * 3600
"""Age limit of states under other code, versions or machines, which hardly return after a month."""


@contextmanager
def temporary_file(path: Path) -> Iterator[tuple[int, Path]]:
    """Make a file next to ``path`` and remove it at the end, if it still exists.

    Leftovers of killed processes that wrote ``path`` are removed first.

    Yields:
        The open descriptor and the path of the file.

    Raises:
        OSError: it cannot be made.
    """
    remove_leftovers(path.parent, re.escape(path.name))
    descriptor, temporary = _own(path, directory=False)
    try:
        yield descriptor, temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)  # only now: without its lock the file would count as a leftover


@contextmanager
def temporary_directory(
    path: Path, rescue: Callable[[Path], object] = lambda _: None
) -> Iterator[Path]:
    """Make an empty directory next to ``path`` and remove it at the end.

    Leftovers of killed processes that prepared ``path`` are removed first.

    Args:
        path: the target prepared in the directory.
        rescue: called with each leftover, and at the end with the directory itself, before it is
            removed; a leftover for which it raises ``OSError`` is kept.

    Raises:
        OSError: it cannot be made.
    """
    remove_leftovers(path.parent, re.escape(path.name), rescue)
    descriptor, temporary = _own(path, directory=True)
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            rescue(temporary)
            shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Make an empty directory that replaces ``path``, and all in it, if the block succeeds.

    Leftovers of killed processes that prepared ``path`` are removed first. A process killed while
    it replaces ``path`` leaves none. The files are on disk before the directory has its name: under
    that name they count as complete. If ``path`` is a link, the directory it leads to is replaced.

    Raises:
        OSError: it cannot be made, or cannot replace ``path``.
    """
    path = path.resolve()
    with temporary_directory(path) as staging:
        # inside, since the temporary directory itself is locked and removed at the end
        whole = staging / "whole"
        whole.mkdir()
        yield whole
        for written in whole.rglob("*"):
            if written.is_file():
                with written.open("rb") as file:
                    os.fsync(file.fileno())
        shutil.rmtree(path, ignore_errors=True)  # a directory cannot replace one that has files
        whole.replace(path)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make an empty directory in the cache directory and remove it at the end.

    Unlike a directory of the system's temporary files, it is removed by the next command if its
    process is killed.

    Raises:
        OSError: it cannot be made.
    """
    path = cache_dir() / "scratch"
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_directory(path) as directory:
        yield directory


def remove_leftovers(
    directory: Path, names: str, rescue: Callable[[Path], object] = lambda _: None
) -> None:
    """Remove the leftovers of killed processes in ``directory``.

    Args:
        directory: it may be missing.
        names: regular expression for the names of their targets.
        rescue: called with each leftover before it is removed.
    """
    pattern = re.compile(rf"\.(?:{names})\.{_MARK}-{_RANDOM}")
    try:
        found = [path for path in directory.iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):  # another process removed it, or another user owns it
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if not _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    continue
                rescue(path)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
            finally:
                os.close(descriptor)


def _own(path: Path, *, directory: bool) -> tuple[int, Path]:
    """Make and lock a file or directory next to ``path``; retry if it was swept before its lock."""
    prefix = f".{path.name}.{_MARK}-"
    while True:
        if directory:
            made = tempfile.mkdtemp(dir=path.parent, prefix=prefix)
            try:
                descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
        else:
            descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=prefix)
        _lock(descriptor, fcntl.LOCK_EX)
        if (own := Path(made)).exists():
            return descriptor, own
        os.close(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    """Lock, and return whether the file is now free to be used or removed by this process."""
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return time.time() - os.fstat(descriptor).st_mtime > _ABANDONED_S
    return True


def tidy(directory: Path) -> None:
    """Remove leftovers of killed runs, and old states next to ``directory`` but not in it.

    Args:
        directory: states of the present code, versions and machine; others are next to it.
    """
    now = time.time()
    for store in directory.parent.glob("*/"):
        remove_leftovers(store, ".+")
        if store == directory:
            continue
        with contextlib.suppress(OSError):  # another run may have removed it, or may own it
            for path in store.iterdir():
                # a leading dot marks a temporary file; its lock says whether it is a leftover
                if path.name.startswith(".") or now - path.stat().st_mtime <= _OTHER_CODE_S:
                    continue
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    # a lock of a run may be old and held: taking it does not change its time
                    if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                        path.unlink()
                finally:
                    os.close(descriptor)
