"""Read the header of a GGUF file, checking every declared size before it is used.

Libraries for GGUF files trust the sizes in a file. A damaged or forged file can make them loop or
allocate without bound, so the header is checked first.
"""

import mmap
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from repro.core.errors import ReproError

Scalar = int | float | bool | str
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""The ``struct`` format of each fixed-size metadata type, by its number."""
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
_MAX_ITEMS = 8_000_000
"""Limit of entries in a header; 262,144 tokens with their merges have about a million."""
_ENTRIES_PER_TOKEN = 4
"""Limit of array entries per token, since gguf spends tens of microseconds on each entry. The
number of tokens is at most the largest dimension of a tensor. Vocabularies have up to 2.2 merges
per token."""
_SIZES = ("embedding_length", "feed_forward_length", "vocab_size", "expert_count")
"""Metadata that decides a model's memory; each is a dimension of some tensor."""


class TensorInfo(NamedTuple):
    """Shape and storage of one tensor."""

    shape: tuple[int, ...]
    """Shape in the file's order: the dimension contiguous in memory comes first."""
    size: int
    """Bytes in the file."""

    @property
    def elements(self) -> int:
        """Number of weights."""
        return prod(self.shape)

    @property
    def bits(self) -> float:
        """Bits per weight, with the scales of quantised blocks."""
        return 8 * self.size / self.elements


class Header(NamedTuple):
    """Metadata and tensors of a GGUF file."""

    architecture: str
    metadata: Mapping[str, Scalar]
    """Numbers and strings."""
    arrays: Mapping[str, int]
    """Number of entries of each array in the metadata."""
    tensors: Mapping[str, TensorInfo]

    def of_architecture(self, name: str) -> Scalar | None:
        """Return the metadata ``ARCHITECTURE.name``, or None."""
        return self.metadata.get(f"{self.architecture}.{name}")

    @property
    def elements(self) -> int:
        """Number of weights in all tensors."""
        return sum(tensor.elements for tensor in self.tensors.values())


def read_header(path: Path) -> Header:
    """Return the header of the GGUF file at ``path``.

    Raises:
        ReproError: the file is absent, truncated, damaged or not GGUF, or it declares sizes that
            do not fit it.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Cursor(data).header()
        _require_plausible(header)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped: ValueError
        raise ReproError(
            f"{path}: not a GGUF file that can be read: {error}. Give a complete GGUF file of "
            f"version {' or '.join(map(str, _VERSIONS))}; if this one was downloaded, download it "
            "again."
        ) from error
    return header


class _Cursor:
    """Position in a file; every read is checked against the file's size."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0
        self.items = 0

    def header(self) -> Header:
        magic = self.take(len(_MAGIC))
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic!r}, not {_MAGIC!r}")
        version = self.number("<I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}")
        tensors, entries = self.number("<Q"), self.number("<Q")
        # An entry has at least the length of its name, its type and one byte.
        self.require("metadata entries", entries, 8 + 4 + 1)
        metadata: dict[str, Scalar] = {}
        arrays: dict[str, int] = {}
        for _ in range(entries):
            name = self.string()
            if name in metadata or name in arrays:
                raise ValueError(f"metadata {name!r} is there twice")
            kind = self.number("<I")
            if kind == _ARRAY:
                arrays[name] = self.skip_array(self.number("<I"), self.number("<Q"))
            elif kind == _STRING:
                metadata[name] = self.string()
            elif kind in _SCALARS:
                metadata[name] = self.number(_SCALARS[kind])
            else:
                raise ValueError(f"metadata of the unknown type {kind}")
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise ValueError("its metadata have no general.architecture")
        return Header(architecture, metadata, arrays, self.tensors(tensors, metadata))

    def tensors(self, count: int, metadata: Mapping[str, Scalar]) -> dict[str, TensorInfo]:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        # A tensor has at least the length of its name, one dimension, its type and its offset.
        self.require("tensors", count, 8 + 4 + 8 + 4 + 8)
        found: dict[str, TensorInfo] = {}
        ends: dict[str, int] = {}
        for _ in range(count):
            name = self.string()
            dimensions = self.number("<I")
            if not 1 <= dimensions <= _MAX_DIMENSIONS:
                msg = f"tensor {name!r} has {dimensions} dimensions, not 1 to {_MAX_DIMENSIONS}"
                raise ValueError(msg)
            shape = tuple(self.number("<Q") for _ in range(dimensions))
            kind = GGMLQuantizationType(self.number("<I"))
            if kind not in GGML_QUANT_SIZES:
                msg = f"tensor {name!r} is stored as {kind.name}, which gguf cannot read"
                raise ValueError(msg)
            block, size = GGML_QUANT_SIZES[kind]
            if name in found or prod(shape) == 0 or shape[0] % block:
                raise ValueError(
                    f"tensor {name!r} of shape {shape} is there twice, is empty, or is not stored "
                    f"in whole blocks of {block}"
                )
            found[name] = TensorInfo(shape, prod(shape) // block * size)
            ends[name] = self.number("<Q") + found[name].size
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"its alignment is {alignment!r}, not a number of bytes")
        # offsets begin after the header, padded to the alignment
        available = max(len(self.data) + -self.at // alignment * alignment, 0)
        for name, end in ends.items():
            if end > available:
                msg = f"tensor {name!r} ends {end - available:,} bytes after the end of the file"
                raise ValueError(msg)
        total = sum(tensor.size for tensor in found.values())
        if total > available:  # overlapping tensors: a small file would give a huge model
            raise ValueError(f"its tensors need {total:,} bytes, {available:,} are there")
        return found

    def skip_array(self, kind: int, count: int) -> int:
        """Skip an array and return its number of entries."""
        if kind == _STRING:
            self.require("strings in an array", count, 8)
            for _ in range(count):
                self.take(self.number("<Q"))
        elif kind in _SCALARS:
            size = struct.calcsize(_SCALARS[kind])
            self.require("numbers in an array", count, size)
            self.at += count * size
        else:
            raise ValueError(f"an array of the unknown type {kind}")
        return count

    def require(self, what: str, count: int, size: int) -> None:
        """Check that the rest of the file can hold ``count`` entries of at least ``size`` bytes."""
        remaining = len(self.data) - self.at
        self.items += count
        if count * size > remaining or self.items > _MAX_ITEMS:
            raise ValueError(
                f"it declares {count:,} {what}; {remaining:,} bytes are left, and a header may "
                f"have {_MAX_ITEMS:,} entries"
            )

    def number(self, layout: str) -> Any:  # noqa: ANN401 - of the type that the layout says
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def string(self) -> str:
        return self.take(self.number("<Q")).decode()

    def take(self, count: int) -> bytes:
        remaining = len(self.data) - self.at
        if count > remaining:
            msg = f"it ends within its header: {count:,} bytes are needed, {remaining:,} are left"
            raise ValueError(msg)
        self.at += count
        return self.data[self.at - count : self.at]


def _require_plausible(header: Header) -> None:
    """Compare the metadata that decides a model's size with the tensors.

    Raises:
        ValueError: no tensor has a declared size.
    """
    largest = max((max(tensor.shape) for tensor in header.tensors.values()), default=0)
    limits = {"block_count": len(header.tensors), **dict.fromkeys(_SIZES, largest)}
    if header.architecture == "gpt2":  # positions are a tensor, the mask their square
        limits["context_length"] = largest
    for name, count in header.arrays.items():
        if count > _ENTRIES_PER_TOKEN * largest:
            raise ValueError(
                f"the array {name!r} has {count:,} entries, and a vocabulary that its tensors "
                f"allow at most {_ENTRIES_PER_TOKEN * largest:,}"
            )
    for name, limit in limits.items():
        value = header.of_architecture(name)
        if value is not None and (not isinstance(value, int) or not 0 <= value <= limit):
            raise ValueError(
                f"{header.architecture}.{name} is {value!r}, and its {len(header.tensors)} tensors "
                f"allow at most {limit:,}"
            )
