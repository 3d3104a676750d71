"""Decide the order in which runs are trained, and retry lost runs, for any executor.

An artifact has its runs trained through an ``Executor``.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from repro.core.errors import ReproError, UnknownRunsError
from repro.core.progress import progress
from repro.measurement.environment import Environment
from repro.training.run import NetworkRun
from repro.training.store import CheckpointStore
from repro.training.trainer import with_commit

ATTEMPTS = 3
"""Maximum number of attempts; a retry resumes from the last checkpoint."""
_IN_LABEL = {"task", "precision", "method", "settings", "epochs", "seed", "start"}


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


@dataclass(frozen=True)
class RunOutcome:
    """The end of one attempt at a run."""

    run: NetworkRun
    metrics: dict[str, Any] = field(default_factory=dict)
    """Metrics of the run, returned by the worker; empty if it failed."""
    problem: str = ""
    """Reason of the failure; empty if the run finished."""
    lost: bool = False
    """Whether its process or machine was lost; another attempt may then succeed."""

    @classmethod
    def failed(cls, run: NetworkRun, error: BaseException, traceback: str) -> "RunOutcome":
        """Return the outcome of a run that raised ``error``; show where if it is unexpected."""
        if isinstance(error, ReproError):
            return cls(run, problem=str(error))
        sys.stderr.write(traceback)
        return cls(run, problem=f"{type(error).__name__}: {error}")


class WorkerPool(Protocol):
    """Trains several runs at a time and leaves their states in the store."""

    def refusal(self, run: NetworkRun) -> str:
        """Return why ``run`` can never be trained here, or an empty string if it can."""

    def has_room(self, run: NetworkRun) -> bool:
        """Return whether ``run`` can start now; always true if nothing is running."""

    def start(self, run: NetworkRun) -> None:
        """Start to train ``run``."""

    def wait(self) -> list[RunOutcome]:
        """Wait until at least one run ends, and return the outcomes of all that ended."""


class RunsFailedError(ReproError):
    """Some runs failed; all others finished."""

    def __init__(self, problems: dict[NetworkRun, str]) -> None:
        """List the runs with their problems."""
        self.problems = problems
        lines = [f"  {described(run)}: {problem}" for run, problem in problems.items()]
        noun = "training run" if len(lines) == 1 else "training runs"
        super().__init__(
            f"{len(lines)} {noun} failed. Progress is saved; run the same command to retry only "
            "what failed:\n" + "\n".join(lines)
        )


def described(run: NetworkRun) -> str:
    """Return a label with all non-default settings, unique within a sweep."""
    settings: Any = run.settings
    differing = [f"{run.epochs} epochs"]
    for part in (settings, run):
        for each in fields(part):
            value = getattr(part, each.name)
            if each.name not in _IN_LABEL and value != each.default:
                differing.append(f"{each.name} {value}")
    start = f", from {described(run.start)}" if run.start else ""
    return f"{run.label()} ({', '.join(differing)}{start})"


def need_engine(runs: Iterable[NetworkRun]) -> bool:
    """Return whether the on-device engine trains any of ``runs`` or of the runs they start from."""
    return any(each and each.engine == "native" for run in runs for each in (run, run.start))


def train_all(
    runs: Sequence[NetworkRun], store: CheckpointStore, pool: WorkerPool, code: Mapping[str, Any]
) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
    """Yield each run with its metrics, starting with the finished runs in ``store``.

    A run that others start from is trained before them. A run whose process or machine is lost is
    retried, up to ``ATTEMPTS`` attempts in all; a run that raises an error is not retried. ``code``
    has the ``commit`` and the ``dirty`` flag of the present code.

    Raises:
        RunsFailedError: after all others have been yielded.
    """
    wanted = dict.fromkeys(runs)
    with progress("training", len(wanted)) as advance:
        missing = []
        for run in wanted:
            metrics = store.progress(run).metrics
            if metrics is None:
                missing.append(run)
            else:
                advance("done before")
                trained = with_commit(metrics.get("trained", {}), code)
                yield run, {**metrics, **({"trained": trained} if trained else {})}
        queue = _Queue(store, pool)
        for outcome in queue.train(missing):
            if outcome.run in wanted:
                advance(outcome.run.label())
                yield outcome.run, outcome.metrics
    if queue.problems:
        raise RunsFailedError(queue.problems)


class _Queue:
    """Waiting, running and failed runs."""

    def __init__(self, store: CheckpointStore, pool: WorkerPool) -> None:
        self.store, self.pool = store, pool
        self.waiting: dict[NetworkRun, None] = {}
        """The waiting runs, in the order in which they start."""
        self.running: set[NetworkRun] = set()
        self.attempts: Counter[NetworkRun] = Counter()
        self.problems: dict[NetworkRun, str] = {}

    def train(self, runs: Iterable[NetworkRun]) -> Iterator[RunOutcome]:
        """Yield the outcome of each run, and of the runs that they start from."""
        for run in runs:
            self._add(run)
        self._start()
        while self.running:
            for outcome in self.pool.wait():
                self.running.remove(outcome.run)
                run, attempts = outcome.run, self.attempts[outcome.run]
                if not outcome.problem:
                    yield outcome
                elif outcome.lost and attempts < ATTEMPTS:
                    sys.stderr.write(f"  {run.label()}: {outcome.problem}; retrying\n")
                    self.waiting = {run: None, **self.waiting}
                else:
                    counted = f" ({attempts} attempts)" if outcome.lost else ""
                    self._give_up(run, outcome.problem + counted)
            self._start()

    def _add(self, run: NetworkRun) -> None:
        if run.start and self.store.progress(run.start).metrics is None:
            self._add(run.start)
        self.waiting[run] = None

    def _start(self) -> None:
        """Start every waiting run that can start."""
        for run in list(self.waiting):
            # often None, which is in none of the collections below
            start = run.start
            if start in self.problems:
                self._give_up(run, f"the run it starts from, {described(start)}, failed")
            elif refusal := self.pool.refusal(run):
                self._give_up(run, refusal)
            elif (
                start not in self.waiting
                and start not in self.running
                and (not self.running or self.pool.has_room(run))
            ):
                del self.waiting[run]
                self.attempts[run] += 1
                self.pool.start(run)
                self.running.add(run)

    def _give_up(self, run: NetworkRun, problem: str) -> None:
        self.waiting.pop(run, None)
        self.problems[run] = problem
        sys.stderr.write(f"  {run.label()}: failed: {problem}\n")


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
            metrics = self._see(run, store)
            if metrics is None:
                missing += 1
            else:
                yield run, metrics
        if missing:
            raise UnknownRunsError(f"{missing} training runs are not done")

    def lines(self) -> list[str]:
        """Return a line for each run."""
        return [f"{status:<28} {described(run)}" for run, status in self.seen.items()]

    def _see(self, run: NetworkRun, store: CheckpointStore) -> dict[str, Any] | None:
        progress = store.progress(run)
        if run.start and progress.metrics is None:
            self._see(run.start, store)
        if progress.metrics is not None:
            self.seen[run] = "done"
        elif progress.epochs:
            self.seen[run] = f"begun, {progress.epochs} of {run.epochs} epochs"
        else:
            self.seen[run] = "to do"
        return progress.metrics
