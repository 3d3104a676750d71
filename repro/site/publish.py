"""Publish a directory as a whole or not at all, with a list of its own files."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.core.errors import ReproError, UsageError
from repro.core.leftovers import temporary_directory
from repro.core.paths import sha256_of

MANIFEST = "SHA256SUMS"
"""File with the hashes of all other files, in the format of ``sha256sum``."""
MARK = "zo-repro-site.txt"
"""File that marks a directory as replaceable."""
_OLD = "old"
"""Directory that holds the replaced site until the new one is in place."""


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """Yield an empty directory to fill, which replaces ``target`` if the block succeeds.

    Raises:
        UsageError: ``target`` exists and holds anything but the files of an earlier site.
        ReproError: the directory of ``target`` or a file in it cannot be written.
    """
    target = target.resolve()
    require_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_directory(target, lambda left: _rescue(left / _OLD, target)) as scratch:
            fresh = scratch / "new"
            fresh.mkdir()
            yield fresh
            (fresh / MARK).write_text("`repro report --html` replaces this directory.\n")
            sums = {n: sha256_of(fresh / n) for n in _files(fresh)}
            lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
            (fresh / MANIFEST).write_text("".join(lines), encoding="utf-8")
            with _alone_in(target.parent):
                require_replaceable(target)  # again: making the site takes a minute
                if target.exists():
                    target.rename(scratch / _OLD)
                try:
                    fresh.rename(target)
                except OSError:
                    _rescue(scratch / _OLD, target)
                    raise
    except OSError as error:
        raise ReproError(
            f"{error.filename or target}: {error.strerror}; {target} is as it was; give another "
            "directory if this one cannot be written"
        ) from error


def _rescue(old: Path, target: Path) -> None:
    """Restore an earlier site after an interrupted replacement."""
    if old.exists() and not target.exists():
        old.rename(target)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Make other processes that publish in ``directory`` wait."""
    # the directory above a site, since a lock on the site itself would move away with it
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _files(directory: Path) -> list[str]:
    found = (path for path in directory.rglob("*") if not path.is_dir() or path.is_symlink())
    return sorted(path.relative_to(directory).as_posix() for path in found)


def require_replaceable(target: Path) -> None:
    """Refuse a target that holds anything but the files of an earlier site.

    Raises:
        UsageError: ``target`` holds other files.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not ((target / MANIFEST).is_file() and (target / MARK).is_file()):
        msg = f"{target} exists and is no site of this suite; give a new or an empty directory"
        raise UsageError(msg)
    lines = (target / MANIFEST).read_text(encoding="utf-8").splitlines()
    own = {MANIFEST, *(line.partition("  ")[2] for line in lines)}
    foreign = [name for name in _files(target) if name not in own]
    if foreign:
        raise UsageError(
            f"{target} holds {foreign[0]}, which is no part of the site and would be lost; move it "
            "away, or give another directory"
        )
