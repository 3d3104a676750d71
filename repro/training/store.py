"""The checkpoints of training runs: kept under everything that decides the outcome of a run."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from repro.core.errors import ReproError
from repro.core.paths import cache_dir
from repro.measurement.environment import Environment, source_sha256
from repro.training.checkpoint import Checkpoint
from repro.training.curve import Curve
from repro.training.run import NetworkRun, TrainingRun

_PACKAGES = ("core", "data", "models", "methods", "integer", "training")
"""The code that decides the outcome of a run ..."""
_RUNS_ALONE = ("training/hyperparameters.py", "training/experiments.py")
"""... but for what only decides which runs there are: settings are part of a run's own key."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    epochs: int
    """Epochs done."""
    metrics: dict[str, Any] | None
    """Its curve and counts, once it has ended."""


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of runs under one code, its versions and one kind of machine.

    The metrics ``trained`` of a run say when, by which commit, by which engine and with how many
    threads its last epoch was trained; a run that is reused keeps them. In integers either engine
    reuses and resumes the runs of the other, since both give the same bits.
    """

    directory: Path
    threads: int = 1
    """Training threads: the last bits of sums in float32 depend on their number."""

    @classmethod
    def of(cls, environment: Environment, threads: int = 1) -> "CheckpointStore":
        """Return the store, under the cache directory, of runs trained in ``environment``."""
        return cls(cache_dir() / "runs" / identity(environment), threads)

    def checkpoint(self, run: TrainingRun) -> Checkpoint:
        """Return where the state of ``run`` is."""
        return Checkpoint(self._path(run, "pt"))

    def progress(self, run: NetworkRun) -> RunProgress:
        """Return how far ``run`` is."""
        checkpoint = self.checkpoint(run)
        with checkpoint.explained():
            return _progress(run, checkpoint.load())

    def take_over(self, run: NetworkRun, content: bytes) -> None:
        """Keep a state of ``run`` that comes from elsewhere, unless there is one as far here."""
        checkpoint = self.checkpoint(run)
        here, there = checkpoint.load(), checkpoint.decode(content)
        if here is None or _progress(run, here).epochs < _progress(run, there).epochs:
            checkpoint.write(content)

    @contextmanager
    def locked(self, run: TrainingRun) -> Iterator[None]:
        """Keep other processes of this machine from training ``run``, or wait for the one that is.

        The lock of a process that dies is free.

        Raises:
            ReproError: another process trains it, and it is timed.
        """
        path = self._path(run, "lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            if run.is_timed:
                msg = f"{run.label()}: another process trains this run; wait for it, or stop it"
                raise ReproError(msg) from error
            sys.stderr.write(f"  {run.label()}: waiting for another process that trains it\n")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _path(self, run: TrainingRun, suffix: str) -> Path:
        key = run.key()
        if self.threads > 1:
            key["threads"] = self.threads
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return self.directory / f"{digest[:32]}.{suffix}"


def identity(environment: Environment) -> str:
    """Return the name of the code, versions and kind of machine that decide a run's outcome."""
    values = [
        source_sha256(*_PACKAGES, without=_RUNS_ALONE),
        sorted(environment.versions.items()),
        environment.cpu,
        environment.cpu_capability,
        environment.onednn,
        environment.gpu,
    ]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _progress(run: NetworkRun, state: dict[str, Any] | None) -> RunProgress:
    if state is None:
        return RunProgress(0, None)
    curve = Curve(**state["curve"])
    ended = curve.divergence or curve.epochs >= run.epochs
    return RunProgress(curve.epochs, curve.epoch_metrics() | state["counts"] if ended else None)
