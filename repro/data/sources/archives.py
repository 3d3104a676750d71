"""Open archives, refusing those that would write outside the place they are unpacked to."""

import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from repro.data.base import BadContentError


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive (or wheel) at ``path``.

    Raises:
        BadContentError: truncated, not a zip archive, or a member's path leaves the archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _refuse_traversal(path.name, archive.namelist())
            yield archive
    except (zipfile.BadZipFile, EOFError) as error:
        msg = f"{path.name}: truncated or not a zip archive ({error})"
        raise BadContentError(msg) from error


@contextmanager
def open_tar(stream: IO[bytes], name: str) -> Iterator[tarfile.TarFile]:
    """Open the tar archive that ``stream`` holds; ``name`` is for messages.

    Raises:
        BadContentError: truncated, not a tar archive, or a member's path leaves the archive.
    """
    try:
        with tarfile.open(fileobj=stream) as archive:
            members = archive.getmembers()
            links = [member.linkname for member in members if member.islnk() or member.issym()]
            _refuse_traversal(name, [member.name for member in members] + links)
            yield archive
    except (tarfile.TarError, EOFError) as error:
        msg = f"{name}: truncated or not a tar archive ({error})"
        raise BadContentError(msg) from error


def _refuse_traversal(archive: str, members: Iterable[str]) -> None:
    for member in members:
        path = PurePosixPath(member.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            msg = f"{archive}: refused, its member {member!r} points outside the archive"
            raise BadContentError(msg)
