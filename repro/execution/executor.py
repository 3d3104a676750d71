"""The interface through which an artifact has its runs trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from repro.core.errors import UnknownRunsError
from repro.execution.schedule import described
from repro.measurement.environment import Environment
from repro.training.run import NetworkRun
from repro.training.store import CheckpointStore


class Executor(Protocol):
    """Trains runs on some machines; the artifact need not know which."""

    @property
    def environment(self) -> Environment:
        """The environment shared by all those machines."""

    @property
    def threads(self) -> int:
        """Threads of each run, which belong to the key of its checkpoint."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield each run with its metrics (curve and counts) as it ends.

        A checkpoint is saved after every epoch, so nothing is trained twice.

        Raises:
            UsageError: no machine can train one of the runs.
            ReproError: some runs failed; all others have been trained and yielded by then.
        """


@dataclass
class DryRunExecutor:
    """Replaces an executor and only looks up the state of each run."""

    environment: Environment
    threads: int = 1
    seen: dict[NetworkRun, str] = field(default_factory=dict)
    """Each run, and ``done``, ``begun, K of N epochs`` or ``to do``."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield the finished runs.

        Raises:
            UnknownRunsError: some runs are missing.
        """
        store = CheckpointStore.of(self.environment, self.threads)
        missing = 0
        for run in dict.fromkeys(runs):
            if run.start:
                self._see(run.start, store)
            metrics = self._see(run, store)
            if metrics is None:
                missing += 1
            else:
                yield run, metrics
        if missing:
            msg = f"{missing} training runs are not done"
            raise UnknownRunsError(msg)

    def lines(self) -> list[str]:
        """Return a line for each run."""
        return [f"{status:<28} {described(run)}" for run, status in self.seen.items()]

    def _see(self, run: NetworkRun, store: CheckpointStore) -> dict[str, Any] | None:
        progress = store.progress(run)
        if progress.metrics is not None:
            self.seen[run] = "done"
        elif progress.epochs:
            self.seen[run] = f"begun, {progress.epochs} of {run.epochs} epochs"
        else:
            self.seen[run] = "to do"
        return progress.metrics
