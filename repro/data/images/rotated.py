"""Rotated MNIST and Fashion-MNIST, the sets for fine-tuning in the ElasticZO paper (Table 2).

Deviations from the paper: it does not say which 1,024 images of each split it takes, nor the
direction and interpolation of the rotation. Here the images are a uniform sample (``SEED``), the
same for both angles, rotated counter-clockwise with bilinear interpolation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from repro.data.arrays import Array
from repro.data.base import ArraySpec, DataSet, derived
from repro.data.images.labelled import FASHION_MNIST, MNIST
from repro.data.images.rotation import rotate
from repro.data.splits import permutation, sample

SIZE = 1024
"""Images of each split: every accuracy of the paper's Table 2 is a whole number of 1,024ths."""
ANGLES = (30, 45)
"""Degrees."""
SEED = 0


def make(base: Mapping[str, Any]) -> dict[str, Array]:
    """Return indices into the base set's splits, labels, and the images at each angle."""
    arrays: dict[str, Array] = {}
    for split in ("train", "test"):
        images, labels = base[f"{split}_images"], base[f"{split}_labels"]
        indices = sample(len(images), SIZE, SEED)
        arrays[f"{split}_indices"] = indices
        arrays[f"{split}_labels"] = np.asarray(labels[indices])
        for angle in ANGLES:
            arrays[f"{split}_images_{angle}"] = rotate(images[indices], angle)
    return arrays


def tuning_images(base: Mapping[str, Any], angle: int) -> tuple[Array, Array]:
    """Return rotated images outside both splits, and their labels, for tuning.

    A random order of the base set's training images starts with the training split; the tuning
    images are the next ``SIZE`` of that order.
    """
    images, labels = base["train_images"], base["train_labels"]
    indices = np.sort(permutation(len(images), SEED)[SIZE : 2 * SIZE])
    return rotate(images[indices], angle), np.asarray(labels[indices])


def _rotated(base: DataSet, hashes: Mapping[str, str]) -> DataSet:
    content = {}
    for key, sha256 in hashes.items():
        shape = (SIZE, 28, 28) if "images" in key else (SIZE,)
        content[key] = ArraySpec(shape, "<i8" if "indices" in key else "|u1", sha256)
    return DataSet(
        name=f"rotated_{base.name}",
        title=f"{base.title}: {SIZE:,} + {SIZE:,}, rotated by 30 and 45 degrees",
        licence=base.licence,
        content=content,
        sources=(derived(base.name, make),),
    )


DATA_SETS = (
    _rotated(
        MNIST,
        {
            "train_indices": "ebed785a8dfb483a2af1c3ef3e3ef002b551db8f83180f640771541d04e2c75f",
            "train_labels": "5266cb8803dfd702f687fbefe0114a3f9b6ab98a2a6403593857129753ece93c",
            "train_images_30": "9c380a8c955304131fcfec1918a0e5d14b92ffd976ed447483d1055d99ef21e7",
            "train_images_45": "bc9b44054c513a30597fedb5dcd487e6a77f23bed625ef3795af54709b22a04f",
            "test_indices": "50850140c7b9b5cd3f12abb4c6678240933441e808feb4be3a0fd38211f26e9a",
            "test_labels": "5f455d711afda5ee0d68f5697754fe5144e1e81809db12d583cb284b05ae7d97",
            "test_images_30": "e5c4659aec16935a7fc565aaa4db4f1d2c041957f2f013ffc7c9fd02908b812e",
            "test_images_45": "70a9c2c3499134e6e6d15bf6de97771a204c5a0a4e183b3a12b24dc8c5f56da0",
        },
    ),
    _rotated(
        FASHION_MNIST,
        {
            "train_indices": "ebed785a8dfb483a2af1c3ef3e3ef002b551db8f83180f640771541d04e2c75f",
            "train_labels": "86a1a8fb425eab0ade72c5a2b53a4878f6fc8db2d32e4641e8e0059900df3acf",
            "train_images_30": "4673a37a4bcdc972094994529f7b731dcd224503ac9853bbdf3b647374eec100",
            "train_images_45": "c6170e09af78b6301e1e30f67394fae6a7a897556b3bcff5bd9956d03cd62a60",
            "test_indices": "50850140c7b9b5cd3f12abb4c6678240933441e808feb4be3a0fd38211f26e9a",
            "test_labels": "ce280926bdd383fed1973a439ea563889052336a9dc0c3b83121a458ae882228",
            "test_images_30": "7c9f0467508e4042e95a2f6661c3038e7a629737d1b831f4610cae0d76850d49",
            "test_images_45": "576a308e60bc603b12a8dd00bb8c3376505b0eeceb404d2193230963855360d0",
        },
    ),
)
