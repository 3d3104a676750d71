"""The check of class labels that every labelled set goes through."""

import numpy as np
from numpy.typing import NDArray

from repro.data.base import BadContentError


def check_labels(labels: NDArray[np.integer], classes: int, name: str) -> None:
    """Raise ``BadContentError`` unless every label is one of 0 to ``classes`` - 1."""
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if outside.size:
        first = int(outside[0])
        msg = f"{name}: label {labels[first]} of item {first} is not in 0..{classes - 1}"
        raise BadContentError(msg)
