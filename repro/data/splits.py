"""Seeded subsets of a set: the validation split for tuning, and uniform samples.

All draws are the raw output of PCG64, the one stream that NumPy promises never to change (NEP 19).
An index set is therefore the same on every machine and with every version.
"""

import numpy as np
import numpy.typing as npt

from repro.core.errors import UsageError
from repro.data.arrays import Array

Indices = npt.NDArray[np.int64]
VALIDATION_FRACTION = 0.1
"""Fraction of every training set held out for tuning, unless a size is given."""


def permutation(length: int, seed: int) -> Indices:
    """Return the numbers 0 to ``length`` - 1 in the random order of ``seed``."""
    keys = np.random.PCG64(seed).random_raw(length)
    return np.argsort(keys, kind="stable")


def sample(length: int, size: int, seed: int) -> Indices:
    """Return ``size`` distinct numbers below ``length``, uniformly drawn, ascending.

    Raises:
        UsageError: ``size`` exceeds ``length``.
    """
    if not 0 < size <= length:
        raise UsageError(f"sample size {size}: must be in 1..{length}")
    return np.sort(permutation(length, seed)[:size])


def holdout(labels: Array, size: int | None = None, seed: int = 0) -> tuple[Indices, Indices]:
    """Split a training set into training and validation items, stratified by class.

    Args:
        labels: class of each item, shape [N], any type that can be compared.
        size: items held out; a tenth of the set, rounded, if not given.
        seed: decides which items are held out.

    Returns:
        Ascending indices of the training and of the validation items. Every class has its share
        of ``size`` to within one item (largest remainders, the lower class first in a tie).

    Raises:
        UsageError: ``size`` is not between 1 and N - 1.
    """
    size = round(len(labels) * VALIDATION_FRACTION) if size is None else size
    if not 0 < size < len(labels):
        raise UsageError(f"validation size {size}: must be in 1..{len(labels) - 1}")
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    quotas, remainders = np.divmod(counts * size, counts.sum())
    quotas[np.argsort(-remainders, kind="stable")[: size - quotas.sum()]] += 1
    order = permutation(len(labels), seed)
    held_out = np.zeros(len(labels), dtype=bool)
    for index, quota in enumerate(quotas):
        members = order[classes[order] == index]
        held_out[members[:quota]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
