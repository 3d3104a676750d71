"""Where the states of cells are kept: by everything that decides their outcome."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from repro.core.paths import cache_dir
from repro.measurement.environment import Environment, source_sha256
from repro.ondevice.build import module_path
from repro.training.cell import Cell
from repro.training.checkpoint import Checkpoint

_PACKAGES = ("core", "data", "models", "methods", "integer", "training")
"""The code that decides the outcome of a cell ..."""
_CELLS_ALONE = ("training/chosen.py", "training/experiments.py")
"""... but for what only decides which cells there are: settings are part of a cell's own key."""


@dataclass(frozen=True)
class Progress:
    """How far a cell is."""

    epochs: int
    """Epochs done."""
    metrics: dict[str, Any] | None
    """Its curves and counts, once it has ended."""


@dataclass(frozen=True)
class CellStore:
    """The states of cells under one code, its versions and one kind of machine.

    The metrics ``trained`` of a cell say when, by which commit, by which engine and with how many
    threads its last epoch was trained: a cell that is taken over keeps its own. In integers it is
    taken over, and goes on, whatever the engine, since both give the same bits.
    """

    directory: Path
    threads: int = 1
    """Threads that a cell is trained with: sums in float32 depend on them in the last bits."""

    @classmethod
    def of(cls, environment: Environment, threads: int = 1) -> "CellStore":
        """Return the store, under the cache directory, of cells trained in ``environment``."""
        return cls(cache_dir() / "cells" / identity(environment), threads)

    def checkpoint(self, cell: Cell) -> Checkpoint:
        """Return where the state of ``cell`` is."""
        return Checkpoint(self._path(cell, "pt"))

    def progress(self, cell: Cell) -> Progress:
        """Return how far ``cell`` is."""
        checkpoint = self.checkpoint(cell)
        with checkpoint.explained():
            return _progress(cell, checkpoint.load())

    def take_over(self, cell: Cell, state: bytes) -> None:
        """Keep a state of ``cell`` that comes from elsewhere, unless there is one as far here."""
        checkpoint = self.checkpoint(cell)
        here, there = checkpoint.load(), checkpoint.decode(state)
        if here is None or _progress(cell, here).epochs < _progress(cell, there).epochs:
            checkpoint.write(state)

    @contextmanager
    def locked(self, cell: Cell) -> Iterator[None]:
        """Keep other processes of this machine from running ``cell``, or wait for the one that is.

        The lock of a process that dies is free.
        """
        path = self._path(cell, "lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            sys.stderr.write(f"  {cell.label()}: waiting for another process that runs it\n")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _path(self, cell: Cell, suffix: str) -> Path:
        key = _key(cell)
        if self.threads > 1:
            key["threads"] = self.threads
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return self.directory / f"{digest[:32]}.{suffix}"


def identity(environment: Environment) -> str:
    """Return the name of the code, versions and kind of machine that decide a cell's outcome."""
    values = [
        source_sha256(*_PACKAGES, without=_CELLS_ALONE),
        sorted(environment.versions.items()),
        environment.cpu,
        environment.cpu_capability,
        environment.onednn,
        environment.gpu,
    ]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _progress(cell: Cell, state: dict[str, Any] | None) -> Progress:
    if state is None:
        return Progress(0, None)
    curves = state["curves"]
    epochs = len(curves["seconds"])
    ended = curves["diverged"] or epochs >= cell.epochs
    return Progress(epochs, curves | state["counts"] if ended else None)


def _key(cell: Cell) -> dict[str, Any]:
    """Return what tells a cell's state from others: the engine's sources where it matters."""
    key = cell.as_dict()
    if "engine" in key:
        key["engine"] = [cell.engine, source_sha256("ondevice"), module_path().parent.name]
    if cell.start:
        key["start"] = _key(cell.start)
    return key
