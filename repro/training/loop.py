"""The training loop: epochs, evaluation, curves; a checkpoint after each epoch.

A run killed at any moment loses at most the epoch it was in, and the curve of a resumed run is that
of an uninterrupted one, number for number.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from repro.data.batches import batches
from repro.methods.step_info import DivergedError
from repro.training.checkpoint import Checkpoint
from repro.training.learner import Learner

EVALUATION_BATCH = 500
"""Items evaluated at a time; the result does not depend on it."""


@dataclass(frozen=True)
class Split:
    """Inputs and labels of the training and of the evaluation items, all on one device."""

    train_inputs: Tensor
    train_labels: Tensor
    eval_inputs: Tensor
    eval_labels: Tensor
    monitored: int = 10_000
    """How many of the training items, the first ones, the training loss is evaluated on."""


@dataclass
class Curves:
    """One number for each epoch; the evaluations begin with one before the first epoch."""

    test_accuracy: list[float] = field(default_factory=list)
    """Fraction of the evaluation items."""
    test_loss: list[float] = field(default_factory=list)
    """Mean cross-entropy of the evaluation items, in nats."""
    train_loss: list[float] = field(default_factory=list)
    """The same of the monitored training items, at the weights that the epoch ended with."""
    seconds: list[float] = field(default_factory=list)
    """Time of each epoch's steps, without evaluation."""
    diverged: bool = False
    """Whether the run ended early at a loss that is not finite."""

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.seconds)

    def as_metrics(self) -> dict[str, Any]:
        """Return the curves as a record keeps them."""
        return asdict(self)


def train(
    learner: Learner,
    split: Split,
    *,
    epochs: int,
    batch: int,
    seed: int,
    checkpoint: Checkpoint,
    report: Callable[[Curves], None] = lambda _: None,
) -> Curves:
    """Train for ``epochs``, from the checkpoint if there is one, and return the curves.

    Args:
        learner: trained in place.
        split: what to train and to evaluate on.
        epochs: in all, those before the checkpoint included.
        batch: items of a minibatch; the last one of an epoch has what is left.
        seed: decides the order of the items.
        checkpoint: written after each epoch.
        report: called after each epoch.
    """
    order = torch.Generator().manual_seed(seed)
    curves = Curves()
    if (state := checkpoint.load()) is not None:
        learner.load_state_dict(state["learner"])
        order.set_state(state["order"])
        curves = Curves(**state["curves"])
    else:
        _evaluate(learner, split, curves)
    while curves.epochs < epochs and not curves.diverged:
        try:
            _epoch(learner, split, curves, batch, order)
        except DivergedError:
            curves.diverged = True
        checkpoint.save(
            {
                "learner": learner.state_dict(),
                "order": order.get_state(),
                "curves": curves.as_metrics(),
            }
        )
        report(curves)
    return curves


def _epoch(
    learner: Learner, split: Split, curves: Curves, batch: int, order: torch.Generator
) -> None:
    learner.start_epoch(curves.epochs)
    start = time.perf_counter()
    for inputs, labels in batches(split.train_inputs, split.train_labels, batch, order):
        learner.step(inputs, labels)
    if split.train_inputs.is_cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    _evaluate(learner, split, curves)
    curves.seconds.append(seconds)


def _evaluate(learner: Learner, split: Split, curves: Curves) -> None:
    loss, accuracy = _scores(learner, split.eval_inputs, split.eval_labels)
    monitored = slice(split.monitored)
    train_loss, _ = _scores(learner, split.train_inputs[monitored], split.train_labels[monitored])
    curves.test_loss.append(loss)
    curves.test_accuracy.append(accuracy)
    curves.train_loss.append(train_loss)


def _scores(learner: Learner, inputs: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return the mean loss and the accuracy.

    Raises:
        DivergedError: the loss is not finite.
    """
    total, correct = 0.0, 0
    for some, their_labels in batches(inputs, labels, EVALUATION_BATCH):
        loss, right = learner.evaluate(some, their_labels)
        total, correct = total + loss, correct + right
    if not total < float("inf"):
        msg = f"the loss of {len(inputs)} evaluated items is {total / len(inputs)}"
        raise DivergedError(msg)
    return total / len(inputs), correct / len(inputs)
