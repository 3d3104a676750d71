"""Runs one cell to its end, from the last epoch that its state was kept of."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch

from repro.measurement.device import require_same_bits
from repro.training.augmentation import CloudAugmentation
from repro.training.build import build
from repro.training.cell import Cell
from repro.training.cell_store import CellStore
from repro.training.learner import Learner
from repro.training.loop import Curves, train
from repro.training.problem import find
from repro.training.seeds import AUGMENTATION, ORDER, derived_seed

_REPORT_EVERY_S = 20


@dataclass(frozen=True)
class Task:
    """A cell and where its state is kept."""

    cell: Cell
    store: CellStore
    code: Mapping[str, Any]
    """``commit`` and ``dirty`` flag of the code that trains it, where known."""


def run_cell(task: Task) -> dict[str, Any]:
    """Run one cell to its end and return its curves and counts as metrics.

    A cell that another process is running is waited for, not run twice.
    """
    torch.set_num_threads(task.store.threads)
    if task.cell.device == "cuda":
        require_same_bits()
    with task.store.locked(task.cell):
        return _run(task)


def _run(task: Task) -> dict[str, Any]:
    cell = task.cell
    learner, split = build(cell)
    ended = "" if cell.start is None else _begin_with(learner, cell.start, task)
    curves = train(
        learner,
        split,
        epochs=cell.epochs,
        batch=cell.settings.batch,
        seed=derived_seed(cell.seed, ORDER),
        checkpoint=task.store.checkpoint(cell),
        augmentation=_augmentation(cell),
        diverged=ended,
        stamp=lambda: {
            "utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "engine": cell.engine,
            "threads": task.store.threads,
            **task.code,
        },
        report=_Reporter(cell),
    )
    return curves.as_metrics() | learner.counts()


def _augmentation(cell: Cell) -> CloudAugmentation | None:
    vertical = find(cell.problem).vertical
    if cell.augmentation == "none" or vertical is None:
        return None
    return CloudAugmentation(derived_seed(cell.seed, AUGMENTATION), vertical)


def _begin_with(learner: Learner, start: Cell, task: Task) -> str:
    """Load the final weights of ``start``; return how it diverged, or an empty string.

    The weights of a run that diverged are the last it had: they are evaluated, not trained on.
    """
    if task.store.progress(start).metrics is None:  # it was removed meanwhile
        run_cell(replace(task, cell=start))
    checkpoint = task.store.checkpoint(start)
    state = checkpoint.load()
    assert state is not None  # noqa: S101 - for the type checker: the run has written it
    with checkpoint.explained():
        learner.load_weights(state["learner"])
        curves = Curves(**state["curves"])
    if not curves.diverged:
        return ""
    return f"the run it starts from, {start.label()}, {curves.divergence}"


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
