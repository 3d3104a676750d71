"""Runs one fine-tuning run to its end, in a process of its own."""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from repro.core.errors import ReproError
from repro.finetuning.base_models import load_base, placed
from repro.finetuning.curve import Curve
from repro.finetuning.flops import StepFlops
from repro.finetuning.items import Items, load_items
from repro.finetuning.learner import Learner
from repro.finetuning.loop import FineTuning
from repro.finetuning.replay import packed, weights_sha256
from repro.finetuning.run import Run
from repro.measurement.device import require_device
from repro.training.checkpoint import Checkpoint

_REPORT_EVERY_S = 20


@dataclass(frozen=True)
class Task:
    """A run and the directory where its state is kept."""

    run: Run
    directory: Path
    base: str = ""
    """``fingerprint`` of the model: prevents resuming from different base weights."""
    data: str = ""
    """Hash of the task's rows and prompt: prevents resuming on different data."""

    def key(self) -> dict[str, Any]:
        """Return all that decides the outcome, as plain values."""
        return {**self.run.as_dict(), "base": self.base, "data": self.data}

    @property
    def checkpoint(self) -> Checkpoint:
        """Where the state of the run is kept."""
        key = json.dumps(self.key(), sort_keys=True)
        return Checkpoint(self.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.pt")


def fine_tune(task: Task) -> dict[str, Any]:
    """Return the metrics of a run: its curve, what it ended with, and the log of a MeZO run.

    Raises:
        UsageError: the device does not exist here, or a setting is out of range.
        ReproError: the model or the data cannot be had, or another process has this run under way.
    """
    run = task.run
    require_device(run.device)
    torch.set_num_threads(run.threads)
    task.directory.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(task.checkpoint.path.with_suffix(".lock"), timeout=0):
            metrics = _metrics(task)
    except Timeout as error:
        msg = f"{run.label()}: another process has this run under way; wait for it, or stop it"
        raise ReproError(msg) from error
    except torch.OutOfMemoryError as error:
        return {"out_of_memory": " ".join(str(error).split())}
    return metrics


def _metrics(task: Task) -> dict[str, Any]:
    run = task.run
    pretrained = load_base(run.model, run.dtype)
    items = load_items(
        run.dataset,
        pretrained.tokenizer,
        tuning=run.tuning_items,
        monitored=run.monitored_items,
        final=run.final_items,
        context=run.context,
    )
    model = placed(pretrained.model, run.device)
    base = weights_sha256(model.parameters())
    learner = Learner(model, items.train.answers, run)
    flops = None if run.tuning else StepFlops(run.arm, run.model, run.batch)
    under_way = FineTuning(run, learner, items, task.checkpoint, flops, _reporter(run))
    curve = under_way.train()
    metrics: dict[str, Any] = curve.as_metrics()
    if run.tuning:
        del metrics["flops"]  # not counted
        return metrics
    metrics |= {"base_sha256": base, **_items(items, run)}
    if not curve.divergence:  # a step that fails leaves the roundings of its passes in the weights
        score = under_way.score("final")
        metrics |= {
            "final_accuracy": score.accuracy,
            "final_loss": score.loss,
            "final_sha256": weights_sha256(model.parameters()),
        }
    log = learner.log
    return metrics if log is None else metrics | {"log": packed(log)}


def _items(items: Items, run: Run) -> dict[str, Any]:
    """Count the items, and the prompts that were cut to fit the context."""
    truncated = {
        "training": items.train.truncated(run.context)[items.training],
        "final": items.validation.truncated(run.context)[items.final],
    }
    return {
        "items": {n: len(getattr(items, n)) for n in ("training", "tuning", "monitored", "final")},
        "truncated": {name: int(which.sum()) for name, which in truncated.items()},
        "left_out": dict(items.left_out),
        "majority": {name: items.majority(name) for name in ("monitored", "final")},
    }


def _reporter(run: Run) -> Callable[[Curve], None]:
    """Return what says, now and then, how far a run is."""
    last = time.monotonic()

    def report(curve: Curve) -> None:
        nonlocal last
        if time.monotonic() - last < _REPORT_EVERY_S:
            return
        last = time.monotonic()
        sys.stderr.write(
            f"  {run.label()}: {_reached(run, curve)}, accuracy {100 * curve.accuracy[-1]:.2f} %\n"
        )
        sys.stderr.flush()

    return report


def _reached(run: Run, curve: Curve) -> str:
    steps, seconds = curve.steps[-1], curve.seconds[-1]
    if run.steps:
        return f"{steps} of {run.steps} steps, {seconds:.0f} s"
    return f"{seconds:.0f} of {run.seconds:g} s, {steps} steps"
