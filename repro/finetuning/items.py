"""Which questions a run is trained, tuned and evaluated on."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.splits import Indices, holdout
from repro.data.text.examples import Example, without_shared_passages
from repro.data.text.tokens import TokenisedSplit, Tokenizer, load_examples, load_tokenised

DATASETS = ("boolq", "yesno-facts")
"""BoolQ, and the generated questions that stand in for it under their own name."""


@dataclass(frozen=True)
class Items:
    """The two published splits, and the items of each that are used."""

    train: TokenisedSplit
    validation: TokenisedSplit
    training: Indices
    """Of ``train``: no passage of theirs is among the tuning or the validation items."""
    tuning: Indices
    """Of ``train``, held out to choose the learning rate on; no passage of validation."""
    monitored: Indices
    """Of ``validation``, evaluated during training."""
    final: Indices
    """Of ``validation``, evaluated at the end."""

    def majority(self, which: str) -> float:
        """Fraction of the ``monitored`` or ``final`` items that have the more frequent answer."""
        yes = float(self.validation.labels[getattr(self, which)].mean())
        return max(yes, 1 - yes)


def first_obtainable(datasets: Sequence[str]) -> str:
    """Return the first of ``datasets`` that can be had, fetching it if need be.

    What another stands in for is said on standard error.

    Raises:
        ReproError: the last cannot be fetched either.
    """
    wanted, *others = datasets
    try:
        cache.load(wanted)
    except UsageError:
        raise
    except ReproError as error:
        if not others:
            raise
        sys.stderr.write(f"{error}\n{others[0]} stands in for {wanted}\n")
        return first_obtainable(others)
    return wanted


def load_items(
    dataset: str, tokenizer: Tokenizer, *, tuning: int, monitored: int, final: int = 0
) -> Items:
    """Return the items of ``dataset``; which they are does not depend on a run's seed.

    Args:
        dataset: ``boolq`` or ``yesno-facts``.
        tokenizer: of the model.
        tuning: training items held out ...
        monitored: validation items evaluated during training ...
        final: ... and at its end. 0 is all of them, and so is more than there are. All three are
            stratified by answer.

    Raises:
        UsageError: more items are to be held out than there are.
        ReproError: the set cannot be had, or an answer is not one token.
    """
    train, validation = (load_examples(dataset, split) for split in ("train", "validation"))
    number = {id(example): index for index, example in enumerate(train)}
    apart = without_shared_passages(train, validation)
    _, held_out = holdout(np.array([example.answer for example in apart]), tuning)
    for_tuning = [apart[index] for index in held_out]
    training = without_shared_passages(apart, for_tuning)
    return Items(
        train=load_tokenised(dataset, "train", tokenizer),
        validation=load_tokenised(dataset, "validation", tokenizer),
        training=np.array([number[id(example)] for example in training]),
        tuning=np.array([number[id(example)] for example in for_tuning]),
        monitored=_some(validation, monitored),
        final=_some(validation, final),
    )


def _some(examples: Sequence[Example], size: int) -> Indices:
    """Return ``size`` items, fixed once for all, with each answer's share of them all."""
    if not 0 < size < len(examples):
        return np.arange(len(examples))
    _, chosen = holdout(np.array([example.answer for example in examples]), size)
    return chosen
