"""The IDX format of MNIST: a big-endian header and unsigned bytes.

Source: "The MNIST database", section "File formats", yann.lecun.com/exdb/mnist.
"""

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from repro.data.base import BadContentError
from repro.data.sources.archives import gunzip

_UNSIGNED_BYTE = 0x08
_GZIP_MAGIC = b"\x1f\x8b"
_LARGEST = 64 * 2**20
"""Largest unpacked file in bytes; the 60,000 training images of MNIST have 47,040,016."""


def read_idx(data: bytes, dimensions: int, name: str) -> npt.NDArray[np.uint8]:
    """Return the uint8 array of ``dimensions`` axes that ``data`` holds, gzipped or not.

    Args:
        data: the whole file.
        dimensions: 1 for labels, 3 for images; the magic number must say the same.
        name: the file's name, for messages.

    Raises:
        BadContentError: the file is truncated or corrupt, has trailing bytes, or another magic
            number.
    """
    if data.startswith(_GZIP_MAGIC):
        data = gunzip(data, _LARGEST, name)
    header = 4 + 4 * dimensions
    if len(data) < header:
        msg = f"{name}: truncated, {len(data)} bytes are less than the header's {header}"
        raise BadContentError(msg)
    magic = int.from_bytes(data[:4], "big")
    expected = _UNSIGNED_BYTE << 8 | dimensions
    if magic != expected:
        raise BadContentError(f"{name}: magic number is {magic:#010x}, must be {expected:#010x}")
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    size = math.prod(shape)
    if len(data) - header != size or size == 0:
        msg = f"{name}: {len(data) - header} bytes after the header, its shape {shape} needs {size}"
        raise BadContentError(msg)
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def read_idx_file(directory: Path, name: str, dimensions: int) -> npt.NDArray[np.uint8]:
    """Return the array of ``directory/name`` or, if that file is missing, of ``name.gz``.

    Raises:
        OSError: neither can be read.
        BadContentError: as ``read_idx``.
    """
    plain = directory / name
    path = plain if plain.exists() else directory / f"{name}.gz"
    if (size := path.stat().st_size) > _LARGEST:
        msg = f"{path}: {size:,} bytes, at most {_LARGEST:,} are allowed; give the right file"
        raise BadContentError(msg)
    return read_idx(path.read_bytes(), dimensions, path.name)
