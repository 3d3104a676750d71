"""The interface through which an artifact has its runs trained."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from repro.measurement.environment import Environment
from repro.training.run import NetworkRun


class Executor(Protocol):
    """Trains runs on some machines; the artifact need not know which."""

    @property
    def environment(self) -> Environment:
        """The environment shared by all those machines."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield each run with its metrics (curve and counts) as it ends.

        A checkpoint is saved after every epoch, so nothing is trained twice.

        Raises:
            UsageError: no machine can train one of the runs.
            ReproError: some runs failed; all others have been trained and yielded by then.
        """
