"""Batches of prompts: lengths alike, padded to the longest, the same at every run."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.data.splits import Indices, permutation
from repro.data.text.tokens import TokenisedSplit

MULTIPLE = 16
"""Widths are multiples of it: a few shapes come back again and again, and kernels like them."""
_MOST_PROMPTS = 64
"""Prompts in a batch for evaluation: each has logits of the whole vocabulary."""
_WINDOW = 16
"""Batches whose prompts are sorted by length among themselves."""


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

    Padding is no token of its own, so that a tokenizer needs none: see ``Batch``.

    Raises:
        UsageError: ``context`` would cut a part that is never cut, such as a question.
    """
    prompts = [split.prompt(int(index), context) for index in indices]
    width = padded_width([len(prompt) for prompt in prompts], context)
    padded = np.stack([np.pad(prompt, (0, width - len(prompt)), mode="edge") for prompt in prompts])
    return Batch(
        _moved(torch.from_numpy(padded.astype(np.int64)), device),
        _moved(torch.tensor([len(prompt) - 1 for prompt in prompts]), device),
        _moved(torch.from_numpy(split.labels[indices].astype(np.int64)), device),
    )


def padded_width(lengths: Sequence[int] | Indices, context: int) -> int:
    """Return T of a batch of prompts of these ``lengths``."""
    return min(-(-int(max(lengths)) // MULTIPLE) * MULTIPLE, context)


def _moved(tensor: Tensor, device: str) -> Tensor:
    """Move to ``device``; from pinned memory, as a copy from other memory waits for the GPU."""
    return tensor if device == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def in_order(lengths: Indices, items: Indices, size: int) -> Iterator[Indices]:
    """Yield ``items`` in batches of ``size``, by length, for evaluation."""
    by_length = items[np.argsort(lengths[items], kind="stable")]
    yield from (by_length[start : start + size] for start in range(0, len(items), size))


def by_tokens(lengths: Indices, items: Indices, context: int, tokens: int) -> Iterator[Indices]:
    """Yield ``items`` by length in batches of as many prompts as ``tokens`` hold, for evaluation.

    Short prompts fill a batch of many, which a processor evaluates in less time than one by one.

    Args:
        lengths: of every prompt.
        items: prompts to yield.
        context: N, the longest prompt in tokens.
        tokens: of a batch with its padding, at least N.
    """
    by_length = items[np.argsort(lengths[items], kind="stable")]
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
    """The batches of a training run, epoch after epoch; any one can be told from its number.

    An epoch is a random order of the items in which the prompts of every 16 batches are sorted by
    length, and those batches shuffled: little padding, and near the order of plain SGD. The last
    batch of an epoch, which would be smaller, is left out.
    """

    def __init__(self, lengths: Indices, items: Indices, size: int, seed: int) -> None:
        """Take the length of every prompt, [N], the items to train on, and the batch size.

        Raises:
            UsageError: there are fewer items than a batch.
        """
        if len(items) < size:
            msg = f"batch size B = {size}: there are {len(items)} training items, take fewer"
            raise UsageError(msg)
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
        draw = self._seed * 1_000_003 + epoch
        order = self._items[permutation(len(self._items), draw)]
        whole = len(order) // self._size * self._size
        window = _WINDOW * self._size
        for start in range(0, whole, window):
            batches = list(
                in_order(self._lengths, order[start : min(start + window, whole)], self._size)
            )
            yield from (batches[i] for i in permutation(len(batches), draw + start))
