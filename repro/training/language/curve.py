"""What a fine-tuning run tells: a point at each evaluation, and how it ended."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Curve:
    """One number for each evaluation; the first is of the base model."""

    seconds: list[float] = field(default_factory=list)
    """Time of the training steps so far; evaluation and saving do not count."""
    cpu_seconds: list[float] = field(default_factory=list)
    """Time of the processor's cores in it, all threads together: on a machine that does nothing
    else, threads times ``seconds``, less what threads wait for each other."""
    steps: list[int] = field(default_factory=list)
    """Training steps so far."""
    forward_passes: list[int] = field(default_factory=list)
    """Forward passes of a batch so far."""
    flops: list[float] = field(default_factory=list)
    """Arithmetic of the training steps so far, by torch's counter."""
    accuracy: list[float] = field(default_factory=list)
    """Fraction of the evaluated items answered rightly."""
    loss: list[float] = field(default_factory=list)
    """Their mean cross-entropy, in nats."""
    train_loss: list[float] = field(default_factory=list)
    """Mean loss of the steps since the evaluation before; none for the first."""
    divergence: str = ""
    """Where the run ended early at a loss that is not finite; empty if it did not."""

    def as_metrics(self) -> dict[str, Any]:
        """Return the curve as a record keeps it."""
        return asdict(self)
