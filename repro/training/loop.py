"""The training loop: epochs, evaluation, curves; a checkpoint after each epoch.

A run killed at any moment loses at most the epoch it was in, and the curve of a resumed run is that
of an uninterrupted one, number for number.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from repro.data.batches import batches
from repro.methods.step_info import DivergedError
from repro.training.augmentation import CloudAugmentation
from repro.training.checkpoint import Checkpoint
from repro.training.learner import Learner


@dataclass(frozen=True)
class Split:
    """Inputs and labels of the training and of the evaluation items, all on one device."""

    train_inputs: Tensor
    train_labels: Tensor
    eval_inputs: Tensor
    eval_labels: Tensor
    monitored: int = 10_000
    """How many of the training items, the first ones, the training loss is evaluated on."""
    evaluated_at_once: int = 500
    """Items of an evaluated batch: bounds the memory, and changes no more than roundings."""


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
    divergence: str = ""
    """Where it did: epoch, step, perturbation seed, last g; empty if it did not."""
    trained: dict[str, Any] = field(default_factory=dict)
    """When and by which code the last epoch was trained, as the ``stamp`` of ``train`` told."""

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.seconds)

    def as_metrics(self) -> dict[str, Any]:
        """Return the curves as a record keeps them."""
        return asdict(self)

    def diverge(self, reason: str) -> None:
        """End the run for ``reason``."""
        self.diverged, self.divergence = True, reason


def train(
    learner: Learner,
    split: Split,
    *,
    epochs: int,
    batch: int,
    seed: int,
    checkpoint: Checkpoint,
    augmentation: CloudAugmentation | None = None,
    diverged: str = "",
    stamp: Callable[[], dict[str, Any]] = dict,
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
        augmentation: changes each minibatch before the step on it; by default nothing does.
        diverged: how the run whose weights this one begins with did, if it did: then they are
            evaluated and not trained.
        stamp: tells when and by which code an epoch was trained; kept with the checkpoint, so that
            a finished run that is only read again does not count as made anew.
        report: called after each epoch.
    """
    order = torch.Generator().manual_seed(seed)
    curves = Curves()

    def save() -> None:
        curves.trained = stamp()
        checkpoint.save(
            {
                "learner": learner.state_dict(),
                "order": order.get_state(),
                "curves": curves.as_metrics(),
                "counts": learner.counts(),
            }
        )

    if (state := checkpoint.load()) is not None:
        with checkpoint.explained():
            learner.load_state_dict(state["learner"])
            order.set_state(state["order"])
            curves = Curves(**state["curves"])
    else:
        with _divergence_noted(curves, "before the first epoch: "):
            _evaluate(learner, split, curves)
        if diverged:
            curves.diverge(diverged)
        if curves.diverged:
            save()
    while curves.epochs < epochs and not curves.diverged:
        with _divergence_noted(curves, f"epoch {curves.epochs + 1}, "):
            _epoch(learner, split, curves, batch, order, augmentation)
        save()
        report(curves)
    return curves


@contextmanager
def _divergence_noted(curves: Curves, when: str) -> Iterator[None]:
    try:
        yield
    except DivergedError as error:
        curves.diverge(f"{when}{error}")


def _epoch(
    learner: Learner,
    split: Split,
    curves: Curves,
    batch: int,
    order: torch.Generator,
    augmentation: CloudAugmentation | None,
) -> None:
    learner.start_epoch(curves.epochs)
    if augmentation:
        augmentation.start_epoch(curves.epochs)
    start = time.perf_counter()
    items = batches(split.train_inputs, split.train_labels, batch, order)
    for number, (inputs, labels) in enumerate(items, start=1):
        try:
            learner.step(augmentation(inputs) if augmentation else inputs, labels)
        except DivergedError as error:
            msg = f"minibatch {number}: {error}"
            raise DivergedError(msg) from error
    if split.train_inputs.is_cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    _evaluate(learner, split, curves)
    curves.seconds.append(seconds)


def _evaluate(learner: Learner, split: Split, curves: Curves) -> None:
    size, monitored = split.evaluated_at_once, slice(split.monitored)
    loss, accuracy = _scores(learner, split.eval_inputs, split.eval_labels, size)
    train_loss, _ = _scores(
        learner, split.train_inputs[monitored], split.train_labels[monitored], size
    )
    curves.test_loss.append(loss)
    curves.test_accuracy.append(accuracy)
    curves.train_loss.append(train_loss)


def _scores(learner: Learner, inputs: Tensor, labels: Tensor, size: int) -> tuple[float, float]:
    """Return the mean loss and the accuracy of all items, evaluated ``size`` at a time.

    Raises:
        DivergedError: the loss is not finite.
    """
    total, correct = 0.0, 0
    for some, their_labels in batches(inputs, labels, size):
        loss, right = learner.evaluate(some, their_labels)
        total, correct = total + loss, correct + right
    if not total < float("inf"):
        msg = f"the loss of {len(inputs)} evaluated items is {total / len(inputs)}"
        raise DivergedError(msg)
    return total / len(inputs), correct / len(inputs)
