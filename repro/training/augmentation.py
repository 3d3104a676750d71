"""Augmentation of the minibatches of a training run."""

import torch
from torch import Tensor

from repro.data.points.augmentation import augment
from repro.training.seeds import derived_seed


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
