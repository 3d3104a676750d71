"""Batches of prompts of similar length, padded to the longest; the same batches in every run."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.data.splits import Indices, permutation
from repro.data.text.tokens import TokenisedSplit

MULTIPLE = 16
"""Widths are multiples of it, so that only a few shapes occur and kernels run efficiently."""
_MOST_PROMPTS = 64
"""Most prompts in an evaluation batch, since each has logits of the whole vocabulary."""
_WINDOW = 16
"""Number of batches whose prompts are sorted by length together."""


class Batch(NamedTuple):
    """B prompts of at most T tokens."""

    tokens: Tensor
    """int64, [B, T], right-padded with the last token of each prompt; nothing reads the padding."""
    last: Tensor
    """int64, [B], position of each prompt's last token."""
    labels: Tensor
    """int64, [B], number of each answer, from 0."""


def collate(
    split: TokenisedSplit, indices: Sequence[int] | Indices, context: int, device: str = "cpu"
) -> Batch:
    """Return the prompts ``indices`` as a batch, none longer than ``context``.

    Padding repeats each prompt's last token (see ``Batch``), so the tokenizer needs no padding
    token.

    Raises:
        UsageError: ``context`` is too short for an uncuttable part, such as a question.
    """
    prompts = [split.prompt(int(index), context) for index in indices]
    width = padded_width([len(prompt) for prompt in prompts], context)
    padded = np.stack([np.pad(prompt, (0, width - len(prompt)), mode="edge") for prompt in prompts])
    return Batch(
        _moved(torch.from_numpy(padded.astype(np.int64)), device),
        _moved(torch.tensor([len(prompt) - 1 for prompt in prompts]), device),
        _moved(torch.from_numpy(split.labels[indices].astype(np.int64)), device),
    )


def blank(size: int, context: int, device: str = "cpu") -> Batch:
    """Return ``size`` prompts of ``context`` tokens, all of them 0, for counts of bytes and FLOPs.

    Every answer is the first one.
    """
    tokens = torch.zeros(size, context, dtype=torch.long, device=device)
    last = torch.full((size,), context - 1, device=device)
    return Batch(tokens, last, torch.zeros_like(last))


def padded_width(lengths: Sequence[int] | Indices, context: int) -> int:
    """Return T of a batch of prompts of these ``lengths``."""
    return min(-(-int(max(lengths)) // MULTIPLE) * MULTIPLE, context)


def _moved(tensor: Tensor, device: str) -> Tensor:
    """Move to ``device`` from pinned memory; a copy from other memory would wait for the GPU."""
    return tensor if device == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def places_by_length(lengths: Indices, items: Indices) -> Indices:
    """Return the places in ``items`` in the order in which evaluation takes them: by length.

    Lengths depend on the tokenizer, so the order differs from model to model.
    """
    return np.argsort(lengths[items], kind="stable")


def in_order(lengths: Indices, items: Indices, size: int) -> Iterator[Indices]:
    """Yield ``items`` in batches of ``size``, by length, for evaluation."""
    by_length = items[places_by_length(lengths, items)]
    yield from (by_length[start : start + size] for start in range(0, len(items), size))


def by_tokens(lengths: Indices, items: Indices, context: int, tokens: int) -> Iterator[Indices]:
    """Yield ``items`` by length in batches of at most ``tokens`` tokens, for evaluation.

    Short prompts thus form large batches, which are evaluated in less time than single prompts.

    Args:
        lengths: length of every prompt.
        items: prompts to yield.
        context: N, the longest prompt in tokens.
        tokens: most tokens of a batch, padding included; at least N.
    """
    by_length = items[places_by_length(lengths, items)]
    start = 0
    for stop in range(1, len(by_length) + 1):
        following = by_length[stop : stop + 1]
        size = stop + 1 - start
        full = len(following) and (
            size > _MOST_PROMPTS or size * padded_width(lengths[following], context) > tokens
        )
        if full or not len(following):
            yield by_length[start:stop]
            start = stop


class Sampler:
    """The batches of a training run, epoch after epoch; a step's number determines its batch.

    An epoch is a random order of the items. Within every 16 batches the prompts are sorted by
    length and the batches are shuffled, which needs little padding and stays close to the order of
    plain SGD. The last, smaller batch of an epoch is left out.
    """

    def __init__(self, lengths: Indices, items: Indices, size: int, seed: int) -> None:
        """Take the length of every prompt, [N], the items to train on, and the batch size.

        Raises:
            UsageError: there are fewer items than ``size``.
        """
        if len(items) < size:
            raise UsageError(
                f"batch size B = {size}: must be at most {len(items)}, the number of training items"
            )
        self._lengths, self._items, self._size, self._seed = lengths, items, size, seed
        self._epoch = -1
        self._batches: list[Indices] = []

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch."""
        return len(self._items) // self._size

    def batch(self, step: int) -> Indices:
        """Return the items of step ``step``, from 0."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, list(self._shuffled(epoch))
        return self._batches[position]

    def _shuffled(self, epoch: int) -> Iterator[Indices]:
        # so far apart that the epochs and windows of two seeds share no draw; within a seed the
        # batches of a window are ordered by the draw of this epoch or a later one
        draw = self._seed * 1_000_003 + epoch
        order = self._items[permutation(len(self._items), draw)]
        whole = len(order) // self._size * self._size
        window = _WINDOW * self._size
        for start in range(0, whole, window):
            batches = list(
                in_order(self._lengths, order[start : min(start + window, whole)], self._size)
            )
            yield from (batches[i] for i in permutation(len(batches), draw + start))
