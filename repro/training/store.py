"""Store the checkpoints of training runs, keyed by everything that decides a run's outcome."""

import hashlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.paths import cache_dir
from repro.measurement.environment import Environment, source_sha256
from repro.training.checkpoint import Checkpoint
from repro.training.loop import Curve
from repro.training.run import NetworkRun, TrainingRun

# not ondevice: its runs name it in their keys
_PACKAGES = ("core", "data", "models", "methods", "integer", "training")
"""Subpackages whose code decides the outcome of a run."""
_RUNS_ALONE = ("training/hyperparameters.py",)
"""Files that only decide which runs exist: their settings are part of a run's own key."""


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run."""

    epochs: int
    """Number of epochs done."""
    metrics: dict[str, Any] | None
    """Its curve and counts; ``None`` until it has ended."""


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of runs made with the same code, library versions and kind of machine.

    The metric ``trained`` of a run gives the time, commit, engine and number of threads of its last
    epoch; a reused run keeps it. No engine continues the other's runs.
    """

    directory: Path
    threads: int = 1
    """Number of training threads, which affects the last bits of sums in float32."""

    @classmethod
    def of(cls, environment: Environment, threads: int = 1) -> "CheckpointStore":
        """Return the store in the cache directory for runs trained in ``environment``."""
        return cls(cache_dir() / "runs" / identity(environment), threads)

    def checkpoint(self, run: TrainingRun) -> Checkpoint:
        """Return the checkpoint of ``run``."""
        return Checkpoint(self._path(run, "pt"))

    def progress(self, run: NetworkRun) -> RunProgress:
        """Return the progress of ``run``, or of a shorter run that it will continue."""
        checkpoint = self.furthest(run)
        with checkpoint.explained():
            return _progress(run, checkpoint.load())

    def take_over(self, run: NetworkRun, content: bytes) -> None:
        """Store a state of ``run`` from elsewhere, unless the one here is at least as far."""
        checkpoint = self.checkpoint(run)
        here, there = checkpoint.load(), checkpoint.decode(io.BytesIO(content))
        # after equally many epochs, an ended run (it may have diverged) is further
        mine, other = (
            (p.epochs, p.metrics is not None) for p in (_progress(run, here), _progress(run, there))
        )
        if here is None or mine < other:
            atomic.replace(checkpoint.path, content)

    def continue_shorter(self, run: TrainingRun) -> None:
        """Give ``run`` the state of a shorter run if that is further than its own."""
        own, found = self.checkpoint(run), self.furthest(run)
        if found != own and (content := found.read()):
            atomic.replace(own.path, content)

    def furthest(self, run: TrainingRun) -> Checkpoint:
        """Return the checkpoint of ``run``, or of an equal float32 run of fewer epochs if further.

        The learning rate of float32 is set epoch by epoch, so both runs are the same so far. The
        schedules of a run in integers span its whole length.
        """
        own = self.checkpoint(run)
        if not isinstance(run, NetworkRun) or run.precision != "fp32":
            return own
        equal = (replace(run, epochs=epochs) for epochs in range(run.epochs - 1, 0, -1))
        shorter = [one for one in map(self.checkpoint, equal) if one.path.exists()]
        if not shorter or _epochs(own) == run.epochs:
            return own
        # its own if several are as far, since max takes the first
        return max([own, *shorter], key=_epochs)

    @contextmanager
    def locked(self, run: TrainingRun) -> Iterator[None]:
        """Keep other processes on this machine from training ``run``; wait if one is training it.

        The lock is freed if its process dies.

        Raises:
            ReproError: another process trains the run, and the run is timed.
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
    """Return a hash of the code, versions and kind of machine that decide a run's outcome."""
    values = [
        source_sha256(*_PACKAGES, without=_RUNS_ALONE),
        sorted(environment.versions.items()),
        environment.cpu,
        environment.cpu_capability,
        environment.onednn,
        environment.gpu,
    ]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _epochs(checkpoint: Checkpoint) -> int:
    """Return the number of epochs done; -1 without a state of a run of these programs."""
    try:
        with checkpoint.explained():
            state = checkpoint.load()
            return -1 if state is None else Curve(**state["curve"]).epochs
    except ReproError:  # reported if it is the run's own
        return -1


def _progress(run: NetworkRun, state: dict[str, Any] | None) -> RunProgress:
    if state is None:
        return RunProgress(0, None)
    curve = Curve(**state["curve"])
    ended = curve.divergence or curve.epochs >= run.epochs
    return RunProgress(curve.epochs, curve.epoch_metrics() | state["counts"] if ended else None)
