"""Write files as a whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from repro.core.errors import ReproError
from repro.core.leftovers import temporary_file


def write_new(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step, refusing to replace an existing file.

    Raises:
        ReproError: ``path`` exists, or its directory cannot be written.
    """
    with _written_beside(path, lambda file: file.write(data)) as temporary:
        try:
            os.link(temporary, path)  # fails, where a rename would overwrite
        except FileExistsError as error:
            raise _already_there(path) from error
        except OSError as error:  # a file system without hard links
            if path.exists():
                raise _already_there(path) from error
            temporary.rename(path)


def replace(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step, replacing an earlier file.

    Raises:
        ReproError: the directory of ``path`` cannot be written.
    """
    replace_by(path, lambda file: file.write(data))


def replace_by(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace ``path`` in one step by the content that ``write`` produces.

    If ``path`` is a link, the file it leads to is replaced.

    Raises:
        ReproError: the directory of ``path`` cannot be written, or ``path`` is no regular file.
        Exception: an error of ``write`` other than ``OSError``; ``path`` is then unchanged.
    """
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "a device or a pipe"
            raise ReproError(f"{path} is {kind}; give a file")
        target = path.resolve()
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    except RuntimeError as error:  # links that lead to each other
        raise ReproError(f"{path}: {error}; give a file") from error
    with _written_beside(target, write) as temporary:
        temporary.replace(target)


def require_writable(directory: Path) -> None:
    """Create ``directory`` if needed and check that files can be created in it.

    Raises:
        ReproError: it cannot be created or written, with the system's reason.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


@contextmanager
def _written_beside(path: Path, write: Callable[[BinaryIO], object]) -> Iterator[Path]:
    """Offer a file next to ``path``, filled by ``write`` and synced to the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_file(path) as (descriptor, temporary):
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                write(file)
                file.flush()
                os.fsync(descriptor)
            # mkstemp lets only the owner read; records and figures are for others, too
            temporary.chmod(0o644)
            yield temporary
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def _already_there(path: Path) -> ReproError:
    return ReproError(f"{path} exists already and is never overwritten; move it away or run again")


def _unwritable(directory: Path, error: OSError) -> ReproError:
    return ReproError(
        f"cannot write to {directory}: {error.strerror or error}; give a directory that can be "
        "written (results: --out DIR; the cache: REPRO_CACHE_DIR)"
    )
