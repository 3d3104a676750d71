"""What an artifact that trains hands its runs to."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from repro.measurement.environment import Environment
from repro.training.run import NetworkRun


class Executor(Protocol):
    """Trains runs on some machines; the artifact need not know which."""

    @property
    def environment(self) -> Environment:
        """What those machines are, all of them."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield each run with its metrics (curve and counts) as it ends.

        Checkpoints are kept after every epoch, so that nothing is trained twice.

        Raises:
            UsageError: the machines cannot train a run at all.
            ReproError: runs failed; the others have been trained and yielded by then.
        """
