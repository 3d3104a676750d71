"""The training and evaluation items of a network's run, on one device and in minibatches."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from repro.data.batches import batches
from repro.data.points.augmentation import augment
from repro.training.loop import Labelled
from repro.training.run import derived_seed


class CloudAugmentation:
    """Augments minibatches of point clouds; see ``repro.data.points.augmentation``.

    A minibatch is augmented once, before the training step, so that both passes of a zeroth-order
    step see the same clouds. Each epoch derives its random numbers from the seed and the number of
    the epoch, so checkpoints need no generator state. A CPU and a GPU draw different numbers from
    the same seed.
    """

    def __init__(self, seed: int, vertical: int) -> None:
        """Take the seed of all epochs, and the vertical coordinate of the clouds."""
        self.seed, self.vertical = seed, vertical
        self._epoch = 0
        self._generator: torch.Generator | None = None

    def start_epoch(self, epoch: int) -> None:
        """Start the random numbers of ``epoch``, counted from 0."""
        self._epoch, self._generator = epoch, None

    def __call__(self, clouds: Tensor) -> Tensor:
        """Return an augmented copy of a minibatch [B, N, 3]; the next one differs."""
        if self._generator is None:
            self._generator = torch.Generator(clouds.device)
            self._generator.manual_seed(derived_seed(self.seed, self._epoch))
        return augment(clouds, self._generator, self.vertical)


@dataclass(frozen=True)
class Split:
    """Inputs and labels of the training and evaluation items, all on one device."""

    train_inputs: Tensor
    train_labels: Tensor
    eval_inputs: Tensor
    eval_labels: Tensor
    monitored: slice = field(default_factory=lambda: slice(None))
    """The training items whose loss is evaluated; by default all."""
    evaluated_at_once: int = 500
    """Items in an evaluation batch; it limits memory. In float32 it affects results only by
    rounding; in integers the range of the whole batch decides the logits (docs/integer.md)."""


class SplitBatches:
    """The minibatches of a split, in a new order each epoch; the last batch may be smaller.

    A checkpoint needs no state of the order: a resumed run redraws the orders of earlier epochs.
    """

    def __init__(
        self, split: Split, size: int, seed: int, augmentation: CloudAugmentation | None = None
    ) -> None:
        """Take the split, the minibatch size, the seed of the order, and the augmentation."""
        self._split, self._size, self._augmentation = split, size, augmentation
        self._order = torch.Generator().manual_seed(seed)
        self._epoch = -1
        self._left: Iterator[Labelled] = iter(())

    @property
    def steps_per_epoch(self) -> int:
        """Number of minibatches in an epoch."""
        return -(-len(self._split.train_inputs) // self._size)

    def batch(self, step: int) -> Labelled:
        """Return the minibatch of ``step``; steps must be consecutive but for the first one."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            for _ in range(self._epoch + 1, epoch):
                next(self._shuffled())  # redraws the order of an earlier epoch
            self._epoch, self._left = epoch, self._shuffled()
            if self._augmentation:
                self._augmentation.start_epoch(epoch)
            for _ in range(position):  # a run that resumes within an epoch
                self._next()
        return self._next()

    def _next(self) -> Labelled:
        inputs, labels = next(self._left)
        return self._augmentation(inputs) if self._augmentation else inputs, labels

    def evaluation(self) -> Iterator[Labelled]:
        """Yield the evaluation items, a few at a time."""
        split = self._split
        return batches(split.eval_inputs, split.eval_labels, split.evaluated_at_once)

    def training_sample(self) -> Iterator[Labelled]:
        """Yield the training items whose loss is evaluated, a few at a time."""
        split = self._split
        return batches(
            split.train_inputs[split.monitored],
            split.train_labels[split.monitored],
            split.evaluated_at_once,
        )

    def _shuffled(self) -> Iterator[Labelled]:
        split = self._split
        return batches(split.train_inputs, split.train_labels, self._size, self._order)
