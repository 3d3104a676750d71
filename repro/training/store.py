"""The checkpoints of training runs: kept under everything that decides the outcome of a run."""

import hashlib
import io
import json
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from filelock import FileLock, Timeout

from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.paths import cache_dir
from repro.measurement.environment import Environment, source_sha256
from repro.training.curve import Curve
from repro.training.run import NetworkRun, TrainingRun

_PACKAGES = ("core", "data", "models", "methods", "integer", "training")
"""The code that decides the outcome of a run ..."""
_RUNS_ALONE = ("training/hyperparameters.py", "training/experiments.py")
"""... but for what only decides which runs there are: settings are part of a run's own key."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of one run in one file, replaced atomically."""

    path: Path

    def load(self) -> dict[str, Any] | None:
        """Return the state, or ``None`` if there is none or it cannot be read."""
        try:
            with self.path.open("rb") as file:
                state = _decoded(file)
        except FileNotFoundError:
            return None
        if state is None:
            self.path.unlink(missing_ok=True)
        return state

    def read(self) -> bytes | None:
        """Return the content of the file, or ``None`` if there is none."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state, without a copy of it in memory.

        Raises:
            ReproError: it cannot be written there.
        """
        atomic.replace_by(self.path, lambda file: torch.save(state, file))

    def write(self, content: bytes) -> None:
        """Replace the content of the file; raises as ``save`` does."""
        atomic.replace(self.path, content)

    def remove(self) -> None:
        """Forget the state."""
        self.path.unlink(missing_ok=True)


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
    threads its last epoch was trained: a run that is taken over keeps its own. In integers it is
    taken over, and resumed, whatever the engine, since both give the same bits.
    """

    directory: Path
    threads: int = 1
    """Threads that a run is trained with: sums in float32 depend on them in the last bits."""

    @classmethod
    def of(cls, environment: Environment, threads: int = 1) -> "CheckpointStore":
        """Return the store, under the cache directory, of runs trained in ``environment``."""
        return cls(cache_dir() / "runs" / identity(environment), threads)

    def checkpoint(self, run: TrainingRun) -> Checkpoint:
        """Return where the state of ``run`` is."""
        return Checkpoint(self._path(run, "pt"))

    def progress(self, run: NetworkRun) -> RunProgress:
        """Return how far ``run`` is."""
        return _progress(run, self.checkpoint(run).load())

    def take_over(self, run: NetworkRun, content: bytes) -> None:
        """Keep a state of ``run`` that comes from elsewhere, unless there is one as far here."""
        checkpoint = self.checkpoint(run)
        here, there = checkpoint.load(), _decoded(io.BytesIO(content))
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


def _decoded(file: BinaryIO) -> dict[str, Any] | None:
    """Return the state in ``file``, or ``None`` if it holds none."""
    try:
        state: dict[str, Any] = torch.load(file, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError):
        return None
    return state


def _progress(run: NetworkRun, state: dict[str, Any] | None) -> RunProgress:
    if state is None:
        return RunProgress(0, None)
    curve = Curve(**state["curve"])
    ended = curve.divergence or curve.epochs >= run.epochs
    return RunProgress(curve.epochs, curve.epoch_metrics() | state["counts"] if ended else None)
