"""Train one run to its end in this process, from its last checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from repro.core.errors import ReproError, is_out_of_memory
from repro.core.progress import now_and_then
from repro.ondevice.build import module_path
from repro.training.loop import train
from repro.training.run import NetworkRun, TrainingRun
from repro.training.store import CheckpointStore


@dataclass(frozen=True)
class TrainingTask:
    """A run and the store of its state."""

    run: TrainingRun
    store: CheckpointStore
    code: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """``commit`` and ``dirty`` flag of the code that trains it, if known."""
    engine: str = field(default_factory=lambda: module_path().parent.name, hash=False)
    """Identifies the on-device engine at the beginning of the command."""

    def __str__(self) -> str:
        """Return the run's label, for errors."""
        return self.run.label()


def train_run(task: TrainingTask) -> dict[str, Any]:
    """Train a run to its end and return its metrics for a record.

    If another process is training the run, wait for it instead of training twice; a timed run is
    refused then. If the device has too little memory for a timed run, the result is
    ``out_of_memory``.

    Raises:
        UsageError: the device does not exist here, or a setting is out of range.
        ReproError: data or a model cannot be obtained, another process trains this timed run, or
            the run needs the on-device engine, whose sources have changed since the command began.
    """
    run, store = task.run, task.store
    if "engine" in run.key() and task.engine != module_path().parent.name:
        raise ReproError(
            "the sources or the compiler of the on-device engine have changed since the command "
            "began, so its runs would not be alike; give the command again"
        )

    def stamp() -> dict[str, Any]:
        return {
            "utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            # PyTorch trains language models, whose runs have no such field
            "engine": getattr(run, "engine", "torch"),
            "threads": store.threads,
            **task.code,
        }

    torch.set_num_threads(store.threads)
    with store.locked(run):
        try:
            store.continue_shorter(run)
            training = run.training(lambda start: final_state(start, task))
            report = now_and_then(run.label())
            curve = train(training, store.checkpoint(run), stamp=stamp, report=report)
            curve.trained = with_commit(curve.trained, task.code)
            return training.metrics(curve)
        except RuntimeError as error:
            if not (run.is_timed and is_out_of_memory(error)):
                raise
            return {"out_of_memory": " ".join(str(error).split())}


def with_commit(trained: Mapping[str, Any], code: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is recorded of a finished run, with the commit of ``code`` if it had none.

    Its code was committed after it was trained; a store holds runs of equal code only.
    """
    if trained.get("dirty") and code.get("dirty") is False:
        return {**trained, **code}
    return dict(trained)


def final_state(run: NetworkRun, task: TrainingTask) -> dict[str, Any]:
    """Return the last state of ``run`` in the store of ``task``, training it first if needed."""
    stored = task.store.checkpoint(run)
    # progress may be that of a shorter run that diverged; training copies its state to this one
    if task.store.progress(run).metrics is None or task.store.furthest(run) != stored:
        train_run(replace(task, run=run))
    state = stored.load()
    assert state is not None  # noqa: S101 - for the type checker: the run has written it
    return state
