"""What MNIST and Fashion-MNIST share: four arrays, ten classes, the same files and library."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from repro.data.base import (
    Array,
    ArraySpec,
    BadContentError,
    Request,
    SourceUnavailableError,
    Value,
)
from repro.data.images.idx import read_idx_file
from repro.data.labels import check_labels

CLASS_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
}  # fmt: skip
"""Set to its ten classes, in the order of their labels."""
CLASSES = 10
FILES = {
    "train_images": ("train-images-idx3-ubyte", 3),
    "train_labels": ("train-labels-idx1-ubyte", 1),
    "test_images": ("t10k-images-idx3-ubyte", 3),
    "test_labels": ("t10k-labels-idx1-ubyte", 1),
}
"""Array to the name of its IDX file and the number of its axes."""
PIXELS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
"""Set to mean and standard deviation of its training pixels, in units of 255, to four digits."""


def image_specs(
    train_images: str, train_labels: str, test_images: str, test_labels: str
) -> dict[str, ArraySpec]:
    """Return the specifications of 60,000 + 10,000 images of 28x28 from their hashes."""
    return {
        "train_images": ArraySpec((60_000, 28, 28), "|u1", train_images),
        "train_labels": ArraySpec((60_000,), "|u1", train_labels),
        "test_images": ArraySpec((10_000, 28, 28), "|u1", test_images),
        "test_labels": ArraySpec((10_000,), "|u1", test_labels),
    }


def read_idx_arrays(
    read: Callable[[str, int], npt.NDArray[np.uint8]],
) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the four arrays, ``read`` giving each from its file name and number of axes.

    Raises:
        BadContentError: a label is not a class, or a split has unlike numbers of images and labels.
    """
    arrays = {key: read(name, dimensions) for key, (name, dimensions) in FILES.items()}
    for split in ("train", "test"):
        check_pairs(arrays[f"{split}_images"], arrays[f"{split}_labels"], split)
    return arrays


def read_idx_directory(directory: Path) -> Mapping[str, Value]:
    """Return the four arrays from a directory of IDX files, gzipped or not."""
    return read_idx_arrays(lambda name, dimensions: read_idx_file(directory, name, dimensions))


def check_pairs(images: Array, labels: Array, split: str) -> None:
    """Raise ``BadContentError`` unless there is one label of 0 to 9 for each image."""
    if len(images) != len(labels):
        msg = f"{split}: {len(images)} images but {len(labels)} labels"
        raise BadContentError(msg)
    check_labels(labels, CLASSES, split)


@dataclass(frozen=True)
class Torchvision:
    """The official files, downloaded and read by torchvision."""

    dataset: str
    """Name of the class in ``torchvision.datasets``."""
    name = "torchvision"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Download both splits; see ``Source``."""
        import torchvision

        dataset = getattr(torchvision.datasets, self.dataset)
        arrays: dict[str, Value] = {}
        try:
            for split in ("train", "test"):
                loaded = dataset(request.workspace, train=split == "train", download=True)
                arrays[f"{split}_images"] = loaded.data.numpy()
                arrays[f"{split}_labels"] = loaded.targets.numpy().astype(np.uint8)
        except (RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            raise SourceUnavailableError(" ".join(str(error).split())) from error
        return arrays
