"""Choose answer biases on training items, so that a zero-shot classifier favours no answer."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
_TWO = 2


def accuracy(logits: Logits, labels: Labels, bias: Logits | None = None) -> float:
    """Return the fraction of items whose label has the highest logit after subtracting the bias.

    Args:
        logits: [M, K].
        labels: [M], 0 to K - 1.
        bias: [K], subtracted from every row; zero if not given.
    """
    shifted = logits if bias is None else logits - bias
    return float((shifted.argmax(1) == labels).mean())


def biases(logits: Logits, labels: Labels) -> Mapping[str, Logits]:
    """Return the biases [K] that each rule chooses from the logits of training items.

    - ``mean``: the mean logit of each answer; uses no labels.
    - ``median``, for two answers: the median of the second logit minus the first, so that each
      answer is predicted for half of the training items; uses no labels.
    - ``threshold``, for two answers: the difference above which the second answer is predicted,
      chosen for the highest training accuracy; among ties, the one nearest to 0.

    Args:
        logits: logits of training items, [M, K].
        labels: [M], 0 to K - 1.
    """
    found = {"mean": logits.mean(0)}
    if logits.shape[1] == _TWO:
        difference = logits[:, 1] - logits[:, 0]
        found["median"] = np.array([0.0, np.median(difference)])
        found["threshold"] = np.array([0.0, best_threshold(difference, labels)])
    return found


def best_threshold(values: Logits, labels: Labels) -> float:
    """Return the threshold that classifies most items rightly, with label 1 above it.

    Args:
        values: [M].
        labels: [M], 0 or 1.

    Returns:
        0, the midpoint of two neighbouring values, or a number 1 below or above all values. Among
        equally good thresholds it is the one nearest to 0.
    """
    ordered = np.unique(values)
    between = (ordered[:-1] + ordered[1:]) / 2
    candidates = np.concatenate([[0.0, ordered[0] - 1, ordered[-1] + 1], between])
    ones = np.sort(values[labels == 1])
    zeros = np.sort(values[labels == 0])
    right = (
        len(ones)
        - np.searchsorted(ones, candidates, side="right")
        + np.searchsorted(zeros, candidates, side="right")
    )
    best = candidates[right == right.max()]
    return float(best[np.abs(best).argmin()])
