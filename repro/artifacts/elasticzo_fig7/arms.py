"""The timed configurations (arms): steps that report the seconds of each phase, epoch by epoch."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from repro.claims.execution_time import PHASES
from repro.core.names import Engine, MethodName, Precision
from repro.data.batches import batches
from repro.methods.step_info import PhaseTimer
from repro.training.build import build, build_learner
from repro.training.float_learner import FloatLearner, NativeLearner
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.loop import Labelled
from repro.training.run import NetworkRun
from repro.training.split import Split

PARTS = 10
"""Parts of an epoch: each arm completes one before the next starts."""
_WARM_UP = 2  # untimed steps, which fill the caches and select the kernels
_EPOCHS = 100  # of the paper's run, whose first epoch is timed


@dataclass(frozen=True)
class TimedRun:
    """One timed configuration."""

    engine: Engine
    precision: Precision
    method: MethodName
    batch: int

    def run(self, items: int | None) -> NetworkRun:
        """Return the training run, with ``items`` images an epoch, whose first epoch is timed."""
        settings = replace(
            tuned_hyperparameters("mnist", self.precision, self.method), batch=self.batch
        )
        return NetworkRun(
            *("mnist", self.precision, self.method, settings, _EPOCHS),
            seed=0,
            train_items=items,
            engine=self.engine,
        )


class _NativeSteps:
    """Steps on the on-device engine, which times its phases itself."""

    def __init__(self, learner: Any) -> None:  # noqa: ANN401 - of either precision
        self._learner = learner
        self._method = learner.optimizer if isinstance(learner, NativeLearner) else learner.method

    def step(self, batch: Labelled) -> None:
        self._learner.step(batch)

    @property
    def seconds(self) -> Mapping[str, float]:
        phases: Mapping[str, float] = self._method.seconds
        return phases


class _TorchSteps:
    """Steps in PyTorch; in float32 the loss is timed separately from the forward pass."""

    def __init__(self, learner: Any) -> None:  # noqa: ANN401 - of either precision
        self._learner = learner
        self._loss = PhaseTimer(enabled=True)
        self._told: dict[str, float] = {}
        if isinstance(learner, FloatLearner):
            learner.optimizer.timed = True
            learner.loss = self._cross_entropy  # type: ignore[method-assign]
        else:
            learner.method.timed = True

    def step(self, batch: Labelled) -> None:
        for phase, seconds in self._learner.step(batch).seconds.items():
            self._told[phase] = self._told.get(phase, 0.0) + seconds

    @property
    def seconds(self) -> Mapping[str, float]:
        loss = self._loss.seconds.get("loss", 0.0)
        if not loss:
            return dict(self._told)
        return self._told | {"forward": self._told["forward"] - loss, "loss": loss}

    def _cross_entropy(self, inputs: Tensor, labels: Tensor) -> Tensor:
        logits = self._learner.model(inputs)
        with self._loss("loss"):
            return functional.cross_entropy(logits, labels)


class _Epoch:
    """An epoch of one arm, run part by part."""

    def __init__(self, arm: TimedRun, split: Split, items: int | None) -> None:
        learner = build_learner(arm.run(items))
        learner.start_epoch(0)
        wrap = _NativeSteps if arm.engine == "native" else _TorchSteps
        self._steps: _NativeSteps | _TorchSteps = wrap(learner)
        images, labels = split.train_inputs, split.train_labels
        for batch in islice(batches(images, labels, arm.batch), _WARM_UP):
            self._steps.step(batch)
        self._batches = batches(images, labels, arm.batch, torch.Generator().manual_seed(0))
        steps = -(-len(images) // arm.batch)
        ends = [steps * part // PARTS for part in range(PARTS + 1)]
        self._parts = [end - start for start, end in pairwise(ends)]
        self._before = dict(self._steps.seconds)
        self._wall = 0.0

    def do(self, part: int) -> None:
        """Run the steps of a part."""
        start = time.perf_counter()
        for batch in islice(self._batches, self._parts[part]):
            self._steps.step(batch)
        self._wall += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase; time outside all phases is ``other``."""
        now = self._steps.seconds
        told = {
            phase: now.get(phase, 0.0) - self._before.get(phase, 0.0)
            for phase in PHASES
            if phase != "other"
        }
        return told | {"other": self._wall - sum(told.values())}


def timed_epoch(
    arms: Sequence[TimedRun], items: int | None, between: Callable[[], object] = lambda: None
) -> tuple[list[dict[str, float]], int]:
    """Time one epoch of every arm; return the seconds of each phase by arm, and the images.

    Args:
        arms: configurations to time, in turns.
        items: number of images in the epoch; by default all.
        between: called before each part.
    """
    precisions = {arm.precision: arm for arm in arms}
    splits = {name: build(arm.run(items))[1] for name, arm in precisions.items()}
    epochs = [_Epoch(arm, splits[arm.precision], items) for arm in arms]
    for part in range(PARTS):
        between()
        for epoch in epochs:
            epoch.do(part)
    (images,) = {len(split.train_inputs) for split in splits.values()}
    return [epoch.seconds() for epoch in epochs], images
