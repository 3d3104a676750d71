"""The training loop of all runs: steps, evaluations, checkpoints.

The clock runs during training steps only. A checkpoint is saved after each evaluation. A run whose
time is a result is also saved between evaluations, as often as saving takes at most a thirtieth of
the time; for MeZO, whose state is a few bytes per step, this is after nearly every step. A run
killed at any moment resumes from its last checkpoint, and its curve has exactly the numbers of an
uninterrupted run.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from repro.methods.step_info import DivergedError, StepInfo
from repro.training.checkpoint import Checkpoint

Minibatch = TypeVar("Minibatch", bound=tuple[Any, ...])
"""Tensors of a minibatch; the last one holds the labels."""
Minibatch_co = TypeVar("Minibatch_co", bound=tuple[Any, ...], covariant=True)
Labelled = tuple[Tensor, Tensor]
"""The minibatch of a network: inputs [B, ...] and labels, int64 [B]."""

_SAVING = 1 / 30
"""Largest fraction of the time spent on checkpoints between evaluations."""


class Learner(ABC, Generic[Minibatch]):
    """A model and the method that trains it."""

    def start_epoch(self, epoch: int) -> None:
        """Apply the schedule to ``epoch``, counted from 0; by default nothing changes."""

    @abstractmethod
    def step(self, batch: Minibatch) -> StepInfo:
        """Train on one minibatch.

        Raises:
            DivergedError: a loss is not finite.
        """

    @abstractmethod
    def evaluate(self, batch: Minibatch) -> tuple[float | Tensor, int | Tensor]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted.

        Both may stay on the device, with the sum in float64, since reading them waits for a GPU.
        """

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return the counts of each epoch of training, by name; by default none."""
        return {}

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``."""


class NetworkLearner(Learner[Labelled]):
    """A network and the method that trains it."""

    @abstractmethod
    def load_weights(self, state: dict[str, Any]) -> None:
        """Start with the weights, and nothing else, of another learner's state."""


@dataclass
class Curve:
    """Each list has one number per evaluation.

    The first evaluates the initial weights, unless a run is evaluated at its end only.
    """

    seconds: list[float] = field(default_factory=list)
    """Time of the training steps so far; evaluation and saving do not count."""
    cpu_seconds: list[float] = field(default_factory=list)
    """CPU time of these steps, summed over threads. On an idle machine it is the number of threads
    times ``seconds``, minus the time in which threads wait for each other."""
    steps: list[int] = field(default_factory=list)
    """Training steps so far."""
    accuracy: list[float] = field(default_factory=list)
    """Fraction of the evaluated items classified correctly."""
    loss: list[float] = field(default_factory=list)
    """Mean cross-entropy of the evaluated items, in nats."""
    train_loss: list[float] = field(default_factory=list)
    """Mean cross-entropy of a sample of the training items. Without a sample, the mean loss of the
    steps since the previous evaluation; the first evaluation then has no entry."""
    divergence: str = ""
    """Place and reason if a non-finite loss ended the run early; else empty."""
    trained: dict[str, Any] = field(default_factory=dict)
    """Time and code of the last steps, as returned by ``stamp`` in ``train``."""

    @property
    def epochs(self) -> int:
        """Number of evaluations after the first one, equal to the epochs of a network's run."""
        return max(0, len(self.seconds) - 1)

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        return asdict(self)

    def epoch_metrics(self) -> dict[str, Any]:
        """Return the curve of a network's run for a record, with the seconds of each epoch."""
        return {
            "test_accuracy": self.accuracy,
            "test_loss": self.loss,
            "train_loss": self.train_loss,
            "seconds": [after - before for before, after in pairwise(self.seconds)],
            "diverged": bool(self.divergence),
            "divergence": self.divergence,
            "trained": self.trained,
        }


class TrainingData(Protocol[Minibatch_co]):
    """Minibatches for training and for evaluation."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of minibatches in an epoch."""

    def batch(self, step: int) -> Minibatch_co:
        """Return the minibatch of training step ``step``, from 0; steps are requested in order."""

    def evaluation(self) -> Iterable[Minibatch_co]:
        """Yield the items on which accuracy and loss are evaluated."""

    def training_sample(self) -> Iterable[Minibatch_co] | None:
        """Return training items for the training loss, or ``None`` to use the loss of the steps."""


@dataclass
class Position:
    """The progress of a run."""

    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    """Losses of the steps since the last evaluation."""


@dataclass(frozen=True)
class Epochs:
    """Trains for whole epochs and evaluates before the first and after each."""

    count: int
    steps: int
    """Number of steps in an epoch."""
    evaluates_start: ClassVar[bool] = True
    """Whether the initial weights are evaluated."""
    is_timed: ClassVar[bool] = False
    """Whether its time is a result; each step then waits for the GPU."""

    def is_over(self, at: Position) -> bool:
        """Return whether all epochs are done."""
        return at.steps >= self.count * self.steps

    def is_due(self, at: Position, curve: Curve) -> bool:  # noqa: ARG002 - as of EqualParts
        """Return whether an epoch has ended."""
        return at.steps % self.steps == 0

    def next_step(self, at: Position) -> str:
        """Name the next step by its epoch and minibatch, from 1."""
        epoch, number = divmod(at.steps, self.steps)
        return f"epoch {epoch + 1}, minibatch {number + 1}: "

    def evaluation(self, at: Position) -> str:
        """Report the end of an epoch."""
        return f"epoch {at.steps // self.steps}, " if at.steps else "before the first epoch: "

    def progress(self, at: Position) -> str:
        """Return how many epochs are done."""
        return f"epoch {at.steps // self.steps}/{self.count}"


@dataclass(frozen=True)
class EqualParts:
    """Trains for a number of steps or a time; evaluates at the start and after equal parts."""

    evaluations: int
    steps: int
    """Number of steps in the run; 0 to train for ``seconds``."""
    seconds: float
    only_at_end: bool = False
    """Whether to evaluate only once, at the end."""
    is_timed: ClassVar[bool] = True

    @property
    def evaluates_start(self) -> bool:
        """Whether the initial weights are evaluated."""
        return not self.only_at_end

    def is_over(self, at: Position) -> bool:
        """Return whether training is complete."""
        return self._parts(at.steps, at.seconds) >= self.evaluations

    def is_due(self, at: Position, curve: Curve) -> bool:
        """Return whether another part is complete since the last evaluation."""
        if self.is_over(at) or self.only_at_end:
            return self.is_over(at)
        before = self._parts(curve.steps[-1], curve.seconds[-1]) if curve.steps else 0
        return self._parts(at.steps, at.seconds) > before

    def next_step(self, at: Position) -> str:
        """Name the next step by its number, from 1."""
        return f"step {at.steps + 1}: "

    def evaluation(self, at: Position) -> str:
        """Name the last step before the evaluation."""
        return f"after step {at.steps}: "

    def progress(self, at: Position) -> str:
        """Return the number of steps done and their time."""
        if self.steps:
            return f"{at.steps} of {self.steps} steps, {at.seconds:.0f} s"
        return f"{at.seconds:.0f} of {self.seconds:g} s, {at.steps} steps"

    def _parts(self, steps: int, seconds: float) -> int:
        """Return how many of the equal parts are complete."""
        if self.steps:
            return steps * self.evaluations // self.steps
        return int(seconds / self.seconds * self.evaluations)


Duration = Epochs | EqualParts
"""Decides when a run is evaluated and when it ends."""


@dataclass
class Training(Generic[Minibatch]):
    """The arguments of the loop: a learner, its data, and the duration of training."""

    learner: Learner[Minibatch]
    """The learner, which is trained in place."""
    data: TrainingData[Minibatch]
    duration: Duration
    metrics: Callable[[Curve], dict[str, Any]]
    """Returns the metrics of the finished run for its record."""
    divergence: str = ""
    """If the run that provides the initial weights diverged, its message; the weights are then only
    evaluated."""


def train(
    training: Training[Minibatch],
    checkpoint: Checkpoint,
    *,
    stamp: Callable[[], dict[str, Any]] = dict,
    report: Callable[[str], None] = lambda _: None,
) -> Curve:
    """Train to the end, resuming from the checkpoint if there is one; return the curve.

    Args:
        training: the learner, its data and the duration.
        checkpoint: the file of the state.
        stamp: returns the time and code of the steps. It is stored in the checkpoint, so that a
            finished run keeps its own stamp when it is read again.
        report: called with the progress after each evaluation.
    """
    learner, data, duration = training.learner, training.data, training.duration
    curve, at = Curve(), Position()

    def state() -> dict[str, Any]:
        curve.trained = stamp()
        return {
            "learner": learner.state_dict(),
            "counts": learner.counts(),
            "curve": curve.as_dict(),
            "at": vars(at),
        }

    def evaluate() -> None:
        try:
            loss, accuracy = score(learner, data.evaluation())
            if (sample := data.training_sample()) is not None:
                curve.train_loss.append(score(learner, sample)[0])
            elif at.losses:
                curve.train_loss.append(sum(at.losses) / len(at.losses))
        except DivergedError as error:
            curve.divergence = f"{duration.evaluation(at)}{error}"
            return
        curve.seconds.append(at.seconds)
        curve.cpu_seconds.append(at.cpu_seconds)
        curve.steps.append(at.steps)
        curve.accuracy.append(accuracy)
        curve.loss.append(loss)
        at.losses = []
        report(f"{duration.progress(at)}, accuracy {100 * accuracy:.2f} %")

    def step() -> None:
        if at.steps % data.steps_per_epoch == 0:
            learner.start_epoch(at.steps // data.steps_per_epoch)
        start, cpu = time.perf_counter(), time.process_time()
        batch = data.batch(at.steps)
        info = learner.step(batch)
        at.steps += 1
        if batch[-1].is_cuda and (duration.is_timed or duration.is_due(at, curve)):
            torch.cuda.synchronize()
        at.seconds += time.perf_counter() - start
        at.cpu_seconds += time.process_time() - cpu
        at.losses.append(info.loss)

    saver = _Saver(checkpoint, state)
    if (before := checkpoint.load()) is not None:
        with checkpoint.explained():
            learner.load_state_dict(before["learner"])
            curve, at = Curve(**before["curve"]), Position(**before["at"])
    elif duration.evaluates_start:
        evaluate()
        curve.divergence = training.divergence or curve.divergence
        saver.save()
    while not duration.is_over(at) and not curve.divergence:
        try:
            step()
        except DivergedError as error:
            where = duration.next_step(at)
            curve.divergence = f"{where}{f'{error}'.removeprefix(where)}"
            saver.save()  # the next command reads it instead of training into it again
            break
        if duration.is_due(at, curve):
            evaluate()
            saver.save()
        elif duration.is_timed:
            saver.maybe()
    return curve


def score(learner: Learner[Minibatch], items: Iterable[Minibatch]) -> tuple[float, float]:
    """Return the mean loss and the accuracy of all ``items``.

    Raises:
        DivergedError: the loss is not finite.
    """
    total: Any = 0.0
    right: Any = 0
    count = 0
    for batch in items:
        loss, correct = learner.evaluate(batch)
        total, right, count = total + loss, right + correct, count + len(batch[-1])
    return finite_mean(total, count), int(right) / count


def finite_mean(total: Tensor | float, count: int) -> float:
    """Return the mean of ``count`` losses from their sum.

    Raises:
        DivergedError: it is not finite.
    """
    mean = float(total) / count
    # written so that NaN fails, too
    if not mean < float("inf"):
        raise DivergedError(f"the loss of {count} evaluated items is {mean}")
    return mean


class _Saver:
    """Saves as often as is cheap."""

    def __init__(self, checkpoint: Checkpoint, state: Callable[[], dict[str, Any]]) -> None:
        self._checkpoint, self._state = checkpoint, state
        self._cost = 0.0
        self._last = time.perf_counter()

    def maybe(self) -> None:
        """Save if the last save was long enough ago for what it cost."""
        if (time.perf_counter() - self._last) * _SAVING > self._cost:
            self.save()

    def save(self) -> None:
        """Save now."""
        start = time.perf_counter()
        self._checkpoint.save(self._state())
        self._last = time.perf_counter()
        self._cost = self._last - start
