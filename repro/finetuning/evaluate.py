"""Accuracy and loss of a classifier on some items of a split."""

from typing import NamedTuple

import torch

from repro.data.splits import Indices
from repro.data.text.tokens import TokenisedSplit
from repro.finetuning.batches import collate, in_order
from repro.finetuning.classifier import YesNoClassifier


class Score(NamedTuple):
    """Of all items evaluated."""

    accuracy: float
    """Fraction of right answers."""
    loss: float
    """Mean cross-entropy in nats; may be infinite or not a number where training diverged."""


def evaluate(
    classifier: YesNoClassifier, split: TokenisedSplit, items: Indices, context: int, size: int
) -> Score:
    """Return the score of ``items``, ``size`` at a time so that memory stays that of training."""
    total, right = 0.0, 0
    for chosen in in_order(split.lengths(context), items, size):
        batch = collate(split, chosen, context, classifier.device)
        loss, correct = classifier.score(batch)
        total, right = total + loss, right + correct
    if classifier.device == "cuda":
        torch.cuda.synchronize()
    return Score(right / len(items), total / len(items))
