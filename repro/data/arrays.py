"""Read NumPy files, checking every declared size before memory is allocated for it.

NumPy trusts headers: a damaged header makes it fail in many ways, or allocate without bound.
"""

import io
import math
import sys
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

Array = npt.NDArray[Any]


class BadArrayError(ValueError):
    """A file is not NumPy's or is damaged; the message says which part and why."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    order: Any
    """``C`` or ``F``, as NumPy names the order of the values."""
    dtype: np.dtype[Any]
    offset: int
    """Where the values begin, in bytes."""
    size: int
    """Bytes of the values."""


def map_npy(path: Path) -> Array:
    """Return the array at ``path``, memory-mapped and read-only.

    Raises:
        OSError: it cannot be read.
        BadArrayError: its header is damaged, or the file is longer or shorter than the header says.
    """
    with path.open("rb") as stream:
        shape, order, dtype, offset, size = _read_header(stream)
    if size == 0:
        return np.empty(shape, dtype, order)
    return np.memmap(path, dtype, "r", offset, shape, order)


def read_npz(content: bytes, names: Iterable[str], most: int) -> dict[str, Array]:
    """Return the named arrays of an ``.npz`` file; names that it lacks are left out.

    Args:
        content: the file's bytes.
        names: names of the arrays.
        most: largest allowed size of one array, in bytes.

    Raises:
        BadArrayError: not an ``.npz`` file, or an array is damaged or larger than ``most``.
    """
    found = {}
    name = "the list of arrays"
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {member.filename: member for member in archive.infolist()}
            for name in names:
                member = members.get(f"{name}.npy")
                if member is None:
                    continue
                if member.file_size > most:
                    msg = f"declares {member.file_size:,} bytes, at most {most:,} are allowed"
                    raise BadArrayError(msg)
                data = archive.read(member)
                shape, order, dtype, offset, size = _read_header(io.BytesIO(data))
                # NumPy refuses a buffer of items without bytes, such as empty strings
                found[name] = (
                    np.frombuffer(data, dtype, offset=offset).reshape(shape, order=order)
                    if size
                    else np.empty(shape, dtype)
                )
    except BadArrayError as error:
        raise BadArrayError(f"{name}: {error}") from error
    except Exception as error:  # zipfile and its decoders have no common error
        msg = f"{name} cannot be read ({type(error).__name__}: {error})"
        raise BadArrayError(msg) from error
    return found


def _read_header(stream: IO[bytes]) -> _Header:
    """Read the header, and check that as many bytes follow as it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # for headers that NumPy would have to repair
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
    except Exception as error:  # a damaged header is evaluated as Python, and fails like it
        msg = f"its header cannot be read ({type(error).__name__}: {error})"
        raise BadArrayError(msg) from error
    # bytes of objects would be read as pointers; two negative lengths have a positive product, and
    # beside a length of 0 the product is 0 for any other length
    if dtype.hasobject or not all(0 <= length <= sys.maxsize for length in shape):
        msg = f"its header says shape {shape} of type {dtype.str}"
        raise BadArrayError(msg)
    offset, size = stream.tell(), math.prod(shape) * dtype.itemsize
    found = stream.seek(0, io.SEEK_END) - offset
    if found != size:
        msg = f"{found:,} bytes of values, its header says {size:,}"
        raise BadArrayError(msg)
    return _Header(shape, "F" if fortran else "C", dtype, offset, size)
