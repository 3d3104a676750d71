"""The curve of a training run, with a point for each evaluation."""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Curve:
    """Each list has one number per evaluation; the first evaluates the initial weights."""

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
