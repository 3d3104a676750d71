"""Open archives safely: no member is written outside, and none grows beyond its size limit.

An archive of a few megabytes can unpack to gigabytes. The declared size of a member is checked
before it is unpacked, and no more bytes than declared are read.
"""

import errno
import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from repro.data.base import BadContentError

_ENCRYPTED = 1
"""Flag of a member's header (APPNOTE.TXT, section 4.4.4)."""
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The compression methods that every packing program uses."""
_DAMAGED = (
    zipfile.BadZipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
    struct.error,
    zlib.error,
)
"""Errors of zipfile for a damaged or unsupported archive."""


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive (or wheel) at ``path``; ``open_member`` and ``read_member`` read it.

    Raises:
        BadContentError: the file is truncated or no zip archive, or a member's path leaves the
            archive.
    """
    # opened outside of the try, so that a missing file is not called a damaged archive
    with path.open("rb") as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except (*_DAMAGED, ValueError, OverflowError, OSError) as error:
            msg = f"{path.name}: truncated or not a zip archive ({error}); get it again"
            raise BadContentError(msg) from error
        with archive:
            _refuse_traversal(path.name, archive.namelist())
            yield archive


@contextmanager
def open_member(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[IO[bytes]]:
    """Open one file of ``archive``.

    Args:
        archive: the archive that ``open_zip`` returned.
        name: name of the file.
        most: largest allowed size in bytes.

    Raises:
        BadContentError: the file is missing, declares more bytes, is encrypted or damaged, or was
            packed by another method than deflate.
    """
    where = f"{Path(archive.filename or 'archive').name}: {name}"
    try:
        member = archive.getinfo(name)
    except KeyError as error:
        msg = f"{where} is missing; get the archive again"
        raise BadContentError(msg) from error
    if member.file_size > most:
        msg = (
            f"{where} has {member.file_size:,} bytes, at most {most:,} are allowed; give the right "
            "file"
        )
        raise BadContentError(msg)
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
        how = "encrypted" if member.flag_bits & _ENCRYPTED else f"method {member.compress_type}"
        msg = f"{where} is packed in a way that is not supported ({how}); pack it by deflate"
        raise BadContentError(msg)
    try:
        with archive.open(member) as stream:
            yield stream
    except (*_DAMAGED, OSError) as error:
        # EINVAL: by a damaged offset zipfile seeks to before the beginning of the file
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # the caller's own error, not one of a damaged archive
        msg = f"{where} is damaged ({error}); get the archive again"
        raise BadContentError(msg) from error


def read_member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return the content of one file of ``archive``; see ``open_member``."""
    with open_member(archive, name, most) as stream:
        return stream.read()


def gunzip(data: bytes, most: int, name: str) -> bytes:
    """Return the content of the gzip file ``data``.

    Args:
        data: the whole file.
        most: largest allowed unpacked size in bytes.
        name: the file's name, for messages.

    Raises:
        BadContentError: the file unpacks to more bytes, is truncated or is damaged.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            found = stream.read(most + 1)
    except (EOFError, gzip.BadGzipFile, struct.error, zlib.error) as error:
        msg = f"{name}: truncated or corrupt gzip ({error}); get it again"
        raise BadContentError(msg) from error
    if len(found) > most:
        msg = f"{name}: unpacks to more than the allowed {most:,} bytes; give the right file"
        raise BadContentError(msg)
    return found


@contextmanager
def open_tar(stream: IO[bytes], name: str) -> Iterator[tarfile.TarFile]:
    """Open the tar archive that ``stream`` holds; ``name`` is for messages.

    Raises:
        BadContentError: the stream is truncated or no tar archive, or a member's path leaves the
            archive.
    """
    try:
        with tarfile.open(fileobj=stream) as archive:
            members = archive.getmembers()
            links = [member.linkname for member in members if member.islnk() or member.issym()]
            _refuse_traversal(name, [member.name for member in members] + links)
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, struct.error) as error:
        msg = f"{name}: truncated or not a tar archive ({error}); get it again"
        raise BadContentError(msg) from error


def _refuse_traversal(archive: str, members: Iterable[str]) -> None:
    for member in members:
        path = PurePosixPath(member.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            msg = f"{archive}: refused, its member {member!r} points outside the archive"
            raise BadContentError(msg)
