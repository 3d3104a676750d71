import contextlib
import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from repro.data.base import BadContentError
from repro.data.images.idx import read_idx, read_idx_file
from repro.data.images.labelled import FILES, read_idx_directory

Bytes = npt.NDArray[np.uint8]


def to_idx(array: Bytes) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


arrays = st.integers(1, 3).flatmap(
    lambda dimensions: npst.arrays(
        np.uint8, npst.array_shapes(min_dims=dimensions, max_dims=dimensions, max_side=6)
    )
)


@given(arrays, st.booleans())
def test_reads_back_what_was_written(array: Bytes, zipped: bool) -> None:
    data = gzip.compress(to_idx(array)) if zipped else to_idx(array)
    np.testing.assert_array_equal(read_idx(data, array.ndim, "file"), array)


@given(st.binary(max_size=64), st.integers(1, 3))
def test_garbage_is_refused_with_the_one_error(data: bytes, dimensions: int) -> None:
    with contextlib.suppress(BadContentError):
        assert to_idx(read_idx(data, dimensions, "file")) == data


@given(arrays, st.data())
def test_every_truncation_is_refused(array: Bytes, data: st.DataObject) -> None:
    whole = to_idx(array)
    kept = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BadContentError):
        read_idx(whole[:kept], array.ndim, "file")


def test_wrong_magic_number_names_both() -> None:
    labels = to_idx(np.zeros(3, np.uint8))
    with pytest.raises(BadContentError, match="magic number is 0x00000801, must be 0x00000803"):
        read_idx(labels + bytes(8), 3, "train-images")


def test_anything_after_the_array_is_refused() -> None:
    with pytest.raises(
        BadContentError, match=r"4 bytes after the header, its shape \(3,\) needs 3"
    ):
        read_idx(to_idx(np.zeros(3, np.uint8)) + b"x", 1, "labels")


def test_a_shape_beyond_64_bits_is_refused() -> None:
    data = struct.pack(">BBBB3I", 0, 0, 8, 3, *[0xFFFFFFFF] * 3)
    with pytest.raises(BadContentError, match="0 bytes after the header"):
        read_idx(data, 3, "images")


@pytest.mark.parametrize("shape", [(0, 2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1, 0)])
def test_an_empty_array_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadContentError, match="0 bytes after the header"):
        read_idx(struct.pack(">BBBB3I", 0, 0, 8, 3, *shape), 3, "images")


@pytest.mark.parametrize("kept", [3, 15, 40])
def test_truncated_gzip_is_refused(kept: int) -> None:
    data = gzip.compress(to_idx(np.arange(200, dtype=np.uint8)))[:kept]
    with pytest.raises(BadContentError, match="truncated or corrupt gzip"):
        read_idx(data, 1, "labels.gz")


def test_a_rewritten_gzip_header_does_not_matter(tmp_path: Path) -> None:
    array = np.arange(10, dtype=np.uint8)
    with gzip.GzipFile(tmp_path / "labels.gz", "wb", mtime=123456789) as file:
        file.write(to_idx(array))
    np.testing.assert_array_equal(read_idx_file(tmp_path, "labels", 1), array)


def write_set(directory: Path, labels: Bytes) -> None:
    for name, dimensions in FILES.values():
        array = np.zeros((len(labels), 28, 28), np.uint8) if dimensions == 3 else labels
        (directory / name).write_bytes(to_idx(array))


def test_reads_a_directory_of_the_four_files(tmp_path: Path) -> None:
    write_set(tmp_path, np.arange(10, dtype=np.uint8))
    content = read_idx_directory(tmp_path)
    assert set(content) == {"train_images", "train_labels", "test_images", "test_labels"}
