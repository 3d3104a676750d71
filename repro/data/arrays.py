"""Read NumPy files that may be damaged, without filling the memory.

NumPy reserves memory for the shape in a header, but fills it only with bytes that the file has.
"""

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

Array = npt.NDArray[Any]


class BadArrayError(ValueError):
    """A file is not NumPy's or is damaged; the message says which part and why."""


def map_npy(path: Path) -> Array:
    """Return the array at ``path``, memory-mapped and read-only.

    Raises:
        BadArrayError: it cannot be read, its header is damaged, or the file is longer or shorter
            than the header says.
    """
    try:
        array: np.memmap[Any, Any] = npy.open_memmap(path, mode="r")
        if (found := path.stat().st_size) != (needed := array.offset + array.nbytes):
            raise ValueError(f"{found:,} bytes, its header says {needed:,}")
    except Exception as error:  # a damaged header is evaluated as Python, and fails like it
        raise BadArrayError(f"it cannot be read ({type(error).__name__}: {error})") from error
    return array


def read_npz(content: bytes, names: Iterable[str], most: int) -> dict[str, Array]:
    """Return the named arrays of an ``.npz`` file.

    Args:
        content: the file's bytes.
        names: names of the arrays.
        most: largest allowed size of one array, in bytes.

    Raises:
        BadArrayError: not an ``.npz`` file, or an array is missing, damaged or larger than
            ``most``.
    """
    found = {}
    name = "the list of arrays"
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in names:
                member = archive.getinfo(f"{name}.npy")
                if member.file_size > most:
                    raise ValueError(f"{member.file_size:,} bytes, at most {most:,} are allowed")
                # the whole member, since zipfile checks its sum at the end
                found[name] = npy.read_array(io.BytesIO(archive.read(member)))
    except Exception as error:  # zipfile and its decoders have no common error
        raise BadArrayError(f"{name} cannot be read ({type(error).__name__}: {error})") from error
    return found
