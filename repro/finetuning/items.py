"""Which questions a run is trained, tuned and evaluated on."""

import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.splits import Indices, holdout, sample
from repro.data.text.examples import without_shared_passages
from repro.data.text.tokens import TokenisedSplit, Tokenizer, load_examples, load_tokenised

Dataset = Literal["boolq", "yesno-facts", "boolq-if-there"]
"""``boolq-if-there`` is BoolQ where it can be had, else yesno-facts under its own name."""


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

    @property
    def majority(self) -> float:
        """Fraction of the validation items that have the more frequent answer."""
        yes = float(self.validation.labels.mean())
        return max(yes, 1 - yes)


def resolve(dataset: Dataset) -> str:
    """Return the name of the set that ``dataset`` stands for here, fetching it if need be.

    That the stand-in is taken for BoolQ is said on standard error.

    Raises:
        ReproError: it cannot be fetched.
    """
    if dataset != "boolq-if-there":
        cache.load(dataset)
        return dataset
    try:
        cache.load("boolq")
    except UsageError:
        raise
    except ReproError as error:
        sys.stderr.write(f"{error}\ngenerated questions (yesno-facts) stand in for BoolQ\n")
        return resolve("yesno-facts")
    return "boolq"


def load_items(
    dataset: str, tokenizer: Tokenizer, *, tuning: int, monitored: int, final: int = 0
) -> Items:
    """Return the items of ``dataset``; which they are does not depend on a run's seed.

    Args:
        dataset: ``boolq`` or ``yesno-facts``.
        tokenizer: of the model.
        tuning: training items held out, stratified by answer ...
        monitored: validation items evaluated during training ...
        final: ... and at its end. 0 is all of them, and so is more than there are.

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
        monitored=_some(len(validation), monitored),
        final=_some(len(validation), final),
    )


def _some(length: int, size: int) -> Indices:
    """Return ``size`` numbers below ``length``, fixed once for all; smaller draws are within."""
    return sample(length, min(size or length, length), seed=0)
