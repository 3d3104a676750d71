"""The paper's schedule of gradient bits and sparsity (section 5.1.1)."""

from dataclasses import dataclass

from repro.core.validation import require_not_negative, require_positive_int


@dataclass(frozen=True)
class Phase:
    """Settings that apply from some epoch on."""

    start: float
    """First epoch of the phase, as a fraction of all epochs."""
    b_bp: int
    """Bits of the tail's update."""
    p_zero: float
    """Probability that an entry of the perturbation is masked to zero."""


PAPER = (Phase(0.0, 5, 0.33), Phase(0.2, 4, 0.5), Phase(0.5, 3, 0.9))
"""From epochs 0, 20 and 50 of 100: 5, 4 and 3 bits, and sparsities of 0.33, 0.5 and 0.9."""


@dataclass(frozen=True)
class Schedule:
    """Phases, stretched to a number of epochs."""

    epochs: int = 100
    """Number of epochs of the run."""
    phases: tuple[Phase, ...] = PAPER

    def __post_init__(self) -> None:
        require_positive_int("epochs", self.epochs)

    def at(self, epoch: int) -> Phase:
        """Return the phase of ``epoch``, counted from 0.

        Raises:
            UsageError: ``epoch`` is below 0.
        """
        require_not_negative("epoch", epoch)
        begun = [phase for phase in self.phases if epoch >= phase.start * self.epochs]
        return begun[-1]
