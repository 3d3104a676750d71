"""The curve of a training run: a point for each evaluation."""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Curve:
    """One number for each evaluation; the first evaluates the initial weights."""

    seconds: list[float] = field(default_factory=list)
    """Time of the training steps so far; evaluation and saving do not count."""
    cpu_seconds: list[float] = field(default_factory=list)
    """Time of the processor's cores in it, all threads together: on a machine that does nothing
    else, threads times ``seconds``, less what threads wait for each other."""
    steps: list[int] = field(default_factory=list)
    """Training steps so far."""
    accuracy: list[float] = field(default_factory=list)
    """Fraction of the evaluated items answered rightly."""
    loss: list[float] = field(default_factory=list)
    """Their mean cross-entropy, in nats."""
    train_loss: list[float] = field(default_factory=list)
    """The same of a sample of the training items; without a sample, the mean loss of the steps
    since the evaluation before, and nothing for the first evaluation."""
    divergence: str = ""
    """Place and reason, if the run ended early at a non-finite loss; else empty."""
    trained: dict[str, Any] = field(default_factory=dict)
    """Time and code of the last steps, as returned by the ``stamp`` of ``train``."""

    @property
    def epochs(self) -> int:
        """Evaluations after the first: the epochs of a network's run."""
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
