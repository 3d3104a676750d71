"""Accuracy and loss of a classifier on some items of a split."""

from typing import NamedTuple

import torch
from torch import Tensor

from repro.data.splits import Indices
from repro.data.text.tokens import TokenisedSplit
from repro.training.language.batches import collate, in_order
from repro.training.language.classifier import AnswerClassifier


class Score(NamedTuple):
    """Of all items evaluated."""

    accuracy: float
    """Fraction of right answers."""
    loss: float
    """Mean cross-entropy in nats; may be infinite or not a number where training diverged."""


def evaluate(
    classifier: AnswerClassifier, split: TokenisedSplit, items: Indices, context: int, size: int
) -> Score:
    """Return the score of ``items``, ``size`` at a time so that memory stays that of training."""
    total = torch.zeros((), dtype=torch.float64, device=classifier.device)
    right = torch.zeros((), dtype=torch.long, device=classifier.device)
    for chosen in in_order(split.lengths(context), items, size):
        loss, correct = classifier.score(collate(split, chosen, context, classifier.device))
        total += loss
        right += correct
    return Score(int(right) / len(items), float(total) / len(items))


@torch.no_grad()
def answer_logits(
    classifier: AnswerClassifier, split: TokenisedSplit, items: Indices, context: int, size: int
) -> Tensor:
    """Return the float32 logits of all answers on the host, [M, K], in the order of ``items``.

    Args:
        classifier: the model with its answers.
        split: the prompts.
        items: M of them.
        context: N, the longest prompt in tokens.
        size: prompts in a batch; a batch holds prompts of like length.
    """
    order = list(in_order(split.lengths(context), items, size))
    found = [
        classifier.logits(collate(split, chosen, context, classifier.device)) for chosen in order
    ]
    place = {int(item): number for number, item in enumerate(items)}
    rows = torch.tensor([place[int(item)] for chosen in order for item in chosen])
    logits = torch.empty(len(items), found[0].shape[1])
    logits[rows] = torch.cat(found).cpu()
    return logits
