"""Select the rows of a task on which a run is trained, tuned and evaluated."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.splits import Indices, holdout
from repro.data.text.task import SPLITS, PromptTask
from repro.data.text.tasks import get_task
from repro.data.text.tokens import TokenisedSplit, Tokenizer, load_tokenised


@dataclass(frozen=True)
class Items:
    """The two published splits, and the items used from each."""

    train: TokenisedSplit
    validation: TokenisedSplit
    training: Indices
    """Training items, from ``train``; they share no text with the tuning or validation items."""
    tuning: Indices
    """Items of ``train`` held out for choosing the learning rate; they share no text with
    validation."""
    monitored: Indices
    """Items of ``validation`` evaluated during training."""
    final: Indices
    """Items of ``validation`` evaluated at the end."""
    left_out: Mapping[str, int]
    """Number of training rows left out for sharing a text with a ``validation`` or ``tuning``
    item."""

    def majority(self, which: str) -> float:
        """Fraction of the ``monitored`` or ``final`` items with the most frequent answer."""
        labels = self.validation.labels[getattr(self, which)]
        return float(np.bincount(labels).max() / len(labels))


def obtainable(tasks: Sequence[str]) -> list[str]:
    """Return the ``tasks`` whose data can be obtained, fetching it if needed.

    The others are reported on standard error, with the reason.

    Raises:
        UsageError: there is no such task.
        ReproError: no task's data can be obtained.
    """
    found: list[str] = []
    for name in tasks:
        try:
            for needed in get_task(name).sets:
                cache.load(needed)
        except UsageError:
            raise
        except ReproError as error:
            if name == tasks[-1] and not found:
                raise
            sys.stderr.write(f"leaving out {name}: {error}\n")
        else:
            found.append(name)
    return found


class _Chosen(NamedTuple):
    """The rows of a task that are used, as in ``Items``."""

    training: Indices
    tuning: Indices
    monitored: Indices
    final: Indices
    left_out: Mapping[str, int]


def require_items(task: PromptTask, *, tuning: int, monitored: int, final: int, batch: int) -> None:
    """Refuse a task whose rows do not suffice, before anything is measured or trained on it.

    Args:
        task: the task.
        tuning: number of training items held out for tuning.
        monitored: number of validation items evaluated during training.
        final: number of validation items evaluated at the end.
        batch: B, prompts of a step.

    Raises:
        UsageError: more items are to be held out than exist, a sample lacks an answer, or fewer
            than ``batch`` items remain to train on.
        ReproError: the set cannot be obtained or is damaged.
    """
    left = len(_choose(task, tuning=tuning, monitored=monitored, final=final).training)
    if left < batch:
        raise UsageError(
            f"task {task.name}: {left} training items remain, fewer than the batch size B = "
            f"{batch}; give a smaller batch, hold out fewer items (--tuning-items), or add rows"
        )


def load_items(
    dataset: str | PromptTask,
    tokenizer: Tokenizer,
    *,
    tuning: int,
    monitored: int,
    final: int = 0,
    context: int | None = None,
) -> Items:
    """Return the items of a task; the selection does not depend on a run's seed.

    Args:
        dataset: name of the task, or the task (see ``repro.data.text.tasks.get_task``).
        tokenizer: the model's tokenizer.
        tuning: number of training items held out for tuning.
        monitored: number of validation items evaluated during training.
        final: number of validation items evaluated at the end; 0, or more than exist, means all.
            All three samples are stratified by answer. If the task has its own tuning rows, the
            tuning items are drawn from those.
        context: N, the longest prompt in tokens; if given, longer prompts are refused.

    Raises:
        UsageError: more items are to be held out than exist, a sample lacks an answer, or a prompt
            does not fit.
        ReproError: the set cannot be obtained or is damaged, or an answer is not one token.
    """
    task = get_task(dataset)
    sources = {split: task.fingerprint(split) for split in SPLITS}
    chosen = _choose(task, tuning=tuning, monitored=monitored, final=final)
    items = Items(
        load_tokenised(task, "train", tokenizer),
        load_tokenised(task, "validation", tokenizer),
        *chosen,
    )
    for split, source in sources.items():
        task.require_unchanged(split, source)
    if context is not None:
        trained = np.union1d(chosen.training, chosen.tuning)
        _require_fit(task, "train", items.train, trained, context)
        _require_fit(task, "validation", items.validation, chosen.final, context)
        _require_fit(task, "validation", items.validation, chosen.monitored, context)
    return items


def _choose(task: PromptTask, *, tuning: int, monitored: int, final: int) -> _Chosen:
    train, trained_on = task.rows("train")
    validation, _ = task.rows("validation")
    labels = [np.array([task.class_of(row) for row in rows]) for rows in (train, validation)]
    texts = [task.identity(row) for row in train]
    published = {task.identity(row) for row in validation}
    apart = np.array([text not in published for text in texts], dtype=bool)
    if task.tuning is None:
        candidates = _candidates(task, apart, tuning)
        _, held_out = holdout(labels[0][candidates], tuning)
        for_tuning = candidates[held_out]
    else:
        own = np.flatnonzero(apart & (np.arange(len(train)) >= trained_on))
        for_tuning = own[_some(labels[0][own], tuning)]
    tuned = {texts[index] for index in for_tuning}
    allowed = np.flatnonzero(apart[:trained_on])
    training = np.array([index for index in allowed if texts[index] not in tuned], dtype=np.int64)
    held_out_of_training = len(for_tuning) if task.tuning is None else 0
    chosen = _Chosen(
        training=training,
        tuning=for_tuning,
        monitored=_some(labels[1], monitored),
        final=_some(labels[1], final),
        left_out={
            "validation": trained_on - len(allowed),
            "tuning": len(allowed) - len(training) - held_out_of_training,
        },
    )
    for name in ("training", "tuning", "monitored", "final"):
        side = 0 if name in {"training", "tuning"} else 1
        counts = np.bincount(labels[side][getattr(chosen, name)], minlength=len(task.answers))
        if not counts.all():
            each = zip(task.answers, counts, strict=True)
            found = ", ".join(f"{label!r}: {count}" for label, count in each)
            raise UsageError(
                f"{name} items of task {task.name}: some label has none ({found}); give more "
                "items, or add rows with that label"
            )
    return chosen


def _some(labels: npt.NDArray[np.int64], size: int) -> Indices:
    """Return ``size`` items, always the same ones, stratified by answer."""
    if not 0 < size < len(labels):
        return np.arange(len(labels))
    _, chosen = holdout(labels, size)
    return chosen


def _require_fit(
    task: PromptTask, which: str, split: TokenisedSplit, items: Indices, context: int
) -> None:
    too_long = items[split.too_long(context)[items]]
    if len(too_long):
        index = int(too_long[0])
        row = task.rows(which)[0][index]
        least = int(split.prefix[index] + split.suffix[index])
        what = "the uncut part of the prompt" if task.truncate else "the prompt"
        raise UsageError(
            f"{row.where}: {what} has {least} tokens, more than N = {context}; "
            f"{len(too_long)} prompts of task {task.name} do not fit; give --context "
            f"{split.least_length} or more"
        )


def _candidates(task: PromptTask, apart: npt.NDArray[np.bool_], tuning: int) -> Indices:
    """Return the training rows that can be held out; more than ``tuning`` of them."""
    candidates = np.flatnonzero(apart)
    if not len(candidates):
        raise UsageError(
            f"task {task.name}: every one of its {len(apart)} training rows is also a validation "
            "row; give other rows for one of the two"
        )
    if tuning >= len(candidates):
        raise UsageError(
            f"task {task.name}: {tuning} training items are to be held out for tuning or "
            f"calibration, and {len(candidates)} of its {len(apart)} training rows share no text "
            f"with validation; hold out at most {len(candidates) - 1} (--tuning-items, or "
            "calibration_items of zero_shot), or add rows"
        )
    return candidates
