"""Trains one run to its end, from its last checkpoint, in the process that is given it."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from repro.measurement.device import require_same_bits
from repro.training.augmentation import CloudAugmentation
from repro.training.build import build
from repro.training.curve import Curve
from repro.training.language.run import LanguageModelRun
from repro.training.learner import Labelled
from repro.training.loop import Epochs, Training, train
from repro.training.run import NetworkRun, TrainingRun
from repro.training.seeds import AUGMENTATION, ORDER, derived_seed
from repro.training.split import SplitBatches
from repro.training.store import CheckpointStore
from repro.training.task import vision_task

_REPORT_EVERY_S = 20


@dataclass(frozen=True)
class TrainingTask:
    """A run and where its state is kept."""

    run: TrainingRun
    store: CheckpointStore
    code: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """``commit`` and ``dirty`` flag of the code that trains it, where known."""


def train_run(task: TrainingTask) -> dict[str, Any]:
    """Train a run to its end and return what a record keeps of it.

    A run that another process is training is waited for, not trained twice; one whose time is a
    result is refused then. A language model for which the device has too little memory is a
    result, ``out_of_memory``.

    Raises:
        UsageError: the device does not exist here, or a setting is out of range.
        ReproError: data or a model cannot be had, or another process trains this timed run.
    """
    run = task.run
    torch.set_num_threads(task.store.threads)
    with task.store.locked(run):
        if isinstance(run, LanguageModelRun):
            from repro.training.language.build import language_training  # with transformers

            try:
                return _train(task, language_training(run))
            except torch.OutOfMemoryError as error:
                return {"out_of_memory": " ".join(str(error).split())}
        assert isinstance(run, NetworkRun)  # noqa: S101 - there is no third sort
        return _train(task, _network_training(run, task))


def final_state(run: NetworkRun, task: TrainingTask) -> dict[str, Any]:
    """Return the last state of ``run`` in the store of ``task``, training it if it is not there."""
    if task.store.progress(run).metrics is None:
        train_run(replace(task, run=run))
    state = task.store.checkpoint(run).load()
    assert state is not None  # noqa: S101 - for the type checker: the run has written it
    return state


def _train(task: TrainingTask, training: Training[Any]) -> dict[str, Any]:
    last = time.monotonic()

    def report(progress: str) -> None:
        """Say, now and then, how far the run is."""
        nonlocal last
        if time.monotonic() - last >= _REPORT_EVERY_S:
            last = time.monotonic()
            sys.stderr.write(f"  {task.run.label()}: {progress}\n")
            sys.stderr.flush()

    def stamp() -> dict[str, Any]:
        return {
            "utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "engine": getattr(task.run, "engine", "torch"),
            "threads": task.store.threads,
            **task.code,
        }

    checkpoint = task.store.checkpoint(task.run)
    return training.metrics(train(training, checkpoint, stamp=stamp, report=report))


def _network_training(run: NetworkRun, task: TrainingTask) -> Training[Labelled]:
    if run.device == "cuda":
        require_same_bits()
    learner, split = build(run)
    divergence = ""
    if run.start is not None:
        before = final_state(run.start, task)
        learner.load_weights(before["learner"])
        if reason := Curve(**before["curve"]).divergence:  # these weights are the last that it had
            divergence = f"the run it starts from, {run.start.label()}, {reason}"
    augmentation = None
    vertical = vision_task(run.task).vertical
    if run.augmentation != "none" and vertical is not None:
        augmentation = CloudAugmentation(derived_seed(run.seed, AUGMENTATION), vertical)
    order = derived_seed(run.seed, ORDER)
    data = SplitBatches(split, run.settings.batch, order, augmentation)
    return Training(
        learner,
        data,
        Epochs(run.epochs, data.steps_per_epoch),
        metrics=lambda curve: curve.epoch_metrics() | learner.counts(),
        divergence=divergence,
    )
