"""Fashion-MNIST: 60,000 + 10,000 articles of clothing of 28x28 grey levels (arXiv 1708.07747)."""

import tarfile
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from repro.data.base import DataSet, Value
from repro.data.images.idx import read_idx
from repro.data.images.labelled import (
    Torchvision,
    image_specs,
    read_idx_arrays,
    read_idx_directory,
)
from repro.data.sources.debian import DebianPackage, read_member
from repro.data.sources.mirror import Mirror

_DEBIAN_DIRECTORY = "./usr/share/datasets/fashion-mnist"


def read_debian(archive: tarfile.TarFile) -> Mapping[str, Value]:
    """Return the four arrays from Debian's package, whose gzip headers are not the original's."""

    def read(name: str, dimensions: int) -> npt.NDArray[np.uint8]:
        data = read_member(archive, f"{_DEBIAN_DIRECTORY}/{name}.gz")
        return read_idx(data, dimensions, name)

    return read_idx_arrays(read)


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
        Torchvision("FashionMNIST"),
        DebianPackage("dataset-fashion-mnist", read_debian),
        Mirror("fashion_mnist", read_idx_directory),
    ),
)
DATA_SETS = (FASHION_MNIST,)
