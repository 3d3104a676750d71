"""The paper's schedule of gradient bits and sparsity (section 5.1.1)."""

from dataclasses import dataclass

from repro.core.validation import require_positive_int


@dataclass(frozen=True)
class Phase:
    """What holds from some epoch on."""

    start: float
    """First epoch of the phase, as a share of all epochs."""
    b_bp: int
    """Bits of the tail's update."""
    p_zero: float
    """Share of zeros among the perturbation's entries."""


PAPER = (Phase(0.0, 5, 0.33), Phase(0.2, 4, 0.5), Phase(0.5, 3, 0.9))
"""5, 4 and 3 bits, and 0.33, 0.5 and 0.9, from epochs 0, 20 and 50 of 100."""


@dataclass(frozen=True)
class Schedule:
    """Phases, stretched to a number of epochs."""

    epochs: int = 100
    """All epochs of the run."""
    phases: tuple[Phase, ...] = PAPER

    def __post_init__(self) -> None:
        require_positive_int("epochs", self.epochs)

    def at(self, epoch: int) -> Phase:
        """Return the phase of ``epoch``, counted from 0."""
        begun = [phase for phase in self.phases if epoch >= phase.start * self.epochs]
        return begun[-1]
