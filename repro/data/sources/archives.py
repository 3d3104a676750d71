"""Unpack archives within a size limit: one of a few megabytes can unpack to gigabytes."""

import errno
import gzip
import io
import shutil
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

from repro.data.base import BadContentError


def copy_member(path: Path, name: str, output: IO[bytes], most: int) -> None:
    """Write one file of a zip archive (or wheel) to ``output``.

    Args:
        path: the archive.
        name: name of the file in it.
        output: where the unpacked bytes go.
        most: largest allowed unpacked size in bytes.

    Raises:
        OSError: the archive cannot be read, or ``output`` cannot be written.
        BadContentError: the archive is truncated or damaged, or lacks the file, or the file
            declares more bytes or a password.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as member:
            size = archive.getinfo(name).file_size
            if size > most:
                raise ValueError(f"{size:,} bytes, at most {most:,} are allowed")
            shutil.copyfileobj(member, output)
    except Exception as error:  # zipfile and its decoders have no common error
        # EINVAL: by a damaged offset zipfile seeks to before the beginning; None: of bz2
        if isinstance(error, OSError) and error.errno not in {errno.EINVAL, None}:
            raise
        msg = f"{path.name}: {name}: truncated or damaged ({error}); get it again"
        raise BadContentError(msg) from error


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
