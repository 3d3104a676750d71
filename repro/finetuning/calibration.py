"""Choose biases of answers on training items, so a zero-shot classifier prefers none."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
_TWO = 2


def accuracy(logits: Logits, labels: Labels, bias: Logits | None = None) -> float:
    """Return the fraction of items whose label has the highest logit, less the bias.

    Args:
        logits: [M, K].
        labels: [M], 0 to K - 1.
        bias: [K], subtracted from every row; none if not given.
    """
    shifted = logits if bias is None else logits - bias
    return float((shifted.argmax(1) == labels).mean())


def biases(logits: Logits, labels: Labels) -> Mapping[str, Logits]:
    """Return the biases by each rule from the logits of training items, each [K].

    - ``mean``: the mean logit of each answer; takes no labels.
    - ``median``, of two answers: the median of the second logit less the first, so that each answer
      is given to half of the training items; takes no labels.
    - ``threshold``, of two answers: the difference above which the second answer is given with the
      most right answers; of several as good, the one nearest to 0.

    Args:
        logits: of training items, [M, K].
        labels: [M], 0 to K - 1.
    """
    found = {"mean": logits.mean(0)}
    if logits.shape[1] == _TWO:
        difference = logits[:, 1] - logits[:, 0]
        found["median"] = np.array([0.0, np.median(difference)])
        found["threshold"] = np.array([0.0, best_threshold(difference, labels)])
    return found


def best_threshold(values: Logits, labels: Labels) -> float:
    """Return the threshold above which calling an item 1 is right most often.

    Args:
        values: [M].
        labels: [M], 0 or 1.

    Returns:
        A number between two neighbouring values or beside the outermost, 0 itself where that is as
        good as any, else of several as good the nearest to 0.
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
