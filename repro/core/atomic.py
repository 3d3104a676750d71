"""Files that are either wholly there or not there at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from repro.core.errors import ReproError


def write_new(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step, refusing to replace an existing file.

    Raises:
        ReproError: ``path`` exists, or its directory cannot be written.
    """
    temporary = _write_beside(path, _all(data))
    try:
        os.link(temporary, path)  # fails, where a rename would overwrite
    except FileExistsError as error:
        raise _already_there(path) from error
    except OSError as error:  # a file system without hard links
        if path.exists():
            raise _already_there(path) from error
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step, replacing what was there.

    Raises:
        ReproError: the directory of ``path`` cannot be written.
    """
    replace_by(path, _all(data))


def replace_by(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace ``path`` in one step by what ``write`` writes to the file it is given.

    Raises:
        ReproError: the directory of ``path`` cannot be written.
        Exception: what ``write`` raised; ``path`` is then as it was.
    """
    temporary = _write_beside(path, write)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def require_writable(directory: Path) -> None:
    """Create ``directory`` if needed and prove that files can be made in it.

    Raises:
        ReproError: it cannot be created or written, with the system's reason.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def _all(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(data)


def _write_beside(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path.parent, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _already_there(path: Path) -> ReproError:
    return ReproError(f"{path} exists already and is never overwritten; move it away or run again")


def _unwritable(directory: Path, error: OSError) -> ReproError:
    return ReproError(
        f"cannot write to {directory}: {error.strerror}; "
        "give a directory that can be written (for results: --out DIR)"
    )
