"""Runs cells in parallel processes; what is done is kept and never done twice."""

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from repro.core.paths import cache_dir
from repro.core.progress import progress
from repro.measurement.device import require_same_bits
from repro.measurement.environment import Environment, source_sha256
from repro.measurement.isolation import run_isolated
from repro.ondevice.build import module_path
from repro.training.build import build
from repro.training.cell import Cell
from repro.training.checkpoint import Checkpoint
from repro.training.learner import Learner
from repro.training.loop import Curves, train
from repro.training.seeds import ORDER, derived_seed
from repro.training.tidy import tidy

_PACKAGES = ("core", "data", "models", "methods", "integer", "training")
"""The code that decides the outcome of a cell ..."""
_CELLS_ALONE = ("training/chosen.py", "training/experiments.py")
"""... but for what only decides which cells there are: settings are part of a cell's own key."""
_REPORT_EVERY_S = 20


@dataclass(frozen=True)
class Task:
    """A cell and where its state is kept."""

    cell: Cell
    directory: Path
    threads: int
    code: Mapping[str, Any]
    """``commit`` and ``dirty`` flag of the code that trains it, where known."""


def run_cells(
    cells: Sequence[Cell], environment: Environment, *, workers: int, threads: int = 1
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield each cell with its curves, as metrics, as they end.

    The state of every cell is kept under the cache directory, by its settings, the code, the
    versions and the machine: a killed run goes on at the last epoch, and a cell that another
    artifact has trained is not trained again.

    Args:
        cells: what to run; cells to start from are run first.
        environment: decides, with the cell, where its state is kept.
        workers: how many processes run at a time ...
        threads: ... each with so many threads.

    The metrics ``trained`` say when, by which commit and by which engine the last epoch was
    trained: a cell that is taken over keeps its own. In integers it is taken over, and goes on,
    whatever the engine, since both give the same bits.

    Raises:
        ReproError: a process died or failed; what was done is kept.
    """
    directory = cache_dir() / "cells" / _identity(environment)
    tidy(directory)
    starts = dict.fromkeys(cell.start for cell in cells if cell.start is not None)
    if starts:
        for _ in run_cells(list(starts), environment, workers=workers, threads=threads):
            pass
    code = _known({"commit": environment.commit, "dirty": environment.dirty})
    tasks = [Task(cell, directory, threads, code) for cell in dict.fromkeys(cells)]
    with progress("training", len(tasks)) as shown:
        for task, curves in run_isolated(
            run_cell, tasks, workers=workers, preload=["repro.training.run_cells"]
        ):
            shown.advance(task.cell.label())
            yield task.cell, curves


def run_cell(task: Task) -> dict[str, Any]:
    """Run one cell to its end, from its last checkpoint, and return its curves as metrics."""
    torch.set_num_threads(task.threads)
    cell = task.cell
    if cell.device == "cuda":
        require_same_bits()
    learner, split = build(cell)
    diverged = "" if cell.start is None else _begin_with(learner, cell.start, task)
    curves = train(
        learner,
        split,
        epochs=0 if diverged else cell.epochs,
        batch=cell.settings.batch,
        seed=derived_seed(cell.seed, ORDER),
        checkpoint=_checkpoint(task.directory, cell),
        stamp=lambda: {
            "utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "engine": cell.engine,
            **task.code,
        },
        report=_Reporter(cell),
    )
    if diverged:
        curves.diverge(diverged)
    return curves.as_metrics() | learner.counts()


def _begin_with(learner: Learner, start: Cell, task: Task) -> str:
    """Load the final weights of ``start``; return how it diverged, or an empty string.

    The weights of a run that diverged are the last it had: they are evaluated, not trained on.
    """
    run_cell(replace(task, cell=start))  # done already, unless its state was removed meanwhile
    state = _checkpoint(task.directory, start).load()
    assert state is not None  # noqa: S101 - for the type checker: the run has written it
    learner.load_weights(state["learner"])
    curves = Curves(**state["curves"])
    if not curves.diverged:
        return ""
    return f"the run it starts from, {start.label()}, {curves.divergence}"


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not null: outside a checkout there is no commit."""
    return {name: value for name, value in values.items() if value is not None}


def _checkpoint(directory: Path, cell: Cell) -> Checkpoint:
    digest = hashlib.sha256(json.dumps(_key(cell), sort_keys=True).encode()).hexdigest()
    return Checkpoint(directory / f"{digest[:32]}.pt")


def _key(cell: Cell) -> dict[str, Any]:
    """Return what tells a cell's state from others: the engine's sources where it matters."""
    key = cell.as_dict()
    if "engine" in key:
        key["engine"] = [cell.engine, source_sha256("ondevice"), module_path().parent.name]
    if cell.start:
        key["start"] = _key(cell.start)
    return key


def _identity(environment: Environment) -> str:
    identity = [
        source_sha256(*_PACKAGES, without=_CELLS_ALONE),
        sorted(environment.versions.items()),
        environment.cpu,
        environment.cpu_capability,
        environment.onednn,
        environment.gpu,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


class _Reporter:
    """Says, now and then, how far a cell is."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.last = time.monotonic()

    def __call__(self, curves: Curves) -> None:
        if time.monotonic() - self.last < _REPORT_EVERY_S:
            return
        self.last = time.monotonic()
        sys.stderr.write(
            f"  {self.cell.label()}: epoch {curves.epochs}/{self.cell.epochs}, "
            f"accuracy {100 * curves.test_accuracy[-1]:.2f} %\n"
        )
        sys.stderr.flush()
