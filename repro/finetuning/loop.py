"""Fine-tuning for a given time, evaluated at equal times, and resumed where it was killed.

The clock runs during training steps alone. A checkpoint is kept after each evaluation, and between
them as often as saving takes no more than a thirtieth of the time: of MeZO, whose state is a few
bytes a step, after nearly every step. What a killed run had trained since is trained again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from repro.finetuning.arms import forward_passes
from repro.finetuning.batches import Sampler, collate
from repro.finetuning.curve import Curve
from repro.finetuning.evaluate import Score, evaluate
from repro.finetuning.flops import StepFlops
from repro.finetuning.items import Items
from repro.finetuning.learner import Learner
from repro.finetuning.run import Run
from repro.methods.step_info import DivergedError
from repro.training.checkpoint import Checkpoint
from repro.training.seeds import ORDER, derived_seed

_SAVING = 1 / 30
"""Largest part of the time that checkpoints between evaluations take."""


@dataclass
class Position:
    """How far a run is."""

    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    flops: float = 0.0
    losses: list[float] = field(default_factory=list)
    """Of the steps since the last evaluation."""


class FineTuning:
    """A run under way."""

    def __init__(
        self,
        run: Run,
        learner: Learner,
        items: Items,
        checkpoint: Checkpoint,
        flops: StepFlops | None = None,
        report: Callable[[Curve], None] = lambda _: None,
    ) -> None:
        """Take what is run, on what, and where its state is kept; go on from that state.

        Without ``flops`` none are counted.
        """
        self.run, self.learner, self.items, self.flops = run, learner, items, flops
        self.curve, self.at = Curve(), Position()
        self._report = report
        self._saver = _Saver(checkpoint)
        self._sampler = Sampler(
            items.train.lengths(run.context),
            items.training,
            run.batch,
            derived_seed(run.seed, ORDER),
        )
        if (state := checkpoint.load()) is not None:
            with checkpoint.explained():
                learner.load_state_dict(state["learner"])
                self.curve, self.at = Curve(**state["curve"]), Position(**state["at"])

    def train(self) -> Curve:
        """Train to the end of the time and return the curve."""
        run = self.run
        if not self.curve.seconds and not run.tuning:
            self._evaluate()
        while self.at.seconds < run.seconds and not self.curve.divergence:
            try:
                self._step()
            except DivergedError as error:
                self.curve.divergence = f"step {self.at.steps + 1}: {error}"
            if self._evaluation_is_due():
                self._evaluate()
            else:
                self._saver.maybe(self._state)
        return self.curve

    def score(self, items: str) -> Score:
        """Evaluate now: on ``tuning``, ``monitored`` or ``final`` items."""
        chosen = getattr(self.items, items)
        split = self.items.train if items == "tuning" else self.items.validation
        return evaluate(self.learner.classifier, split, chosen, self.run.context, self.run.batch)

    def _step(self) -> None:
        start, cpu = time.perf_counter(), time.process_time()
        chosen = self._sampler.batch(self.at.steps)
        batch = collate(self.items.train, chosen, self.run.context, self.run.device)
        loss = self.learner.step(batch)
        if self.run.device == "cuda":
            torch.cuda.synchronize()
        self.at.seconds += time.perf_counter() - start
        self.at.cpu_seconds += time.process_time() - cpu
        self.at.steps += 1
        self.at.flops += 0.0 if self.flops is None else self.flops(batch.width)
        self.at.losses.append(loss)

    def _evaluation_is_due(self) -> bool:
        """Tell whether a multiple of the time between evaluations has passed since the last."""
        if self.curve.divergence:
            return False
        every = self.run.seconds / self.run.evaluations
        before = self.curve.seconds[-1] if self.curve.seconds else 0.0
        ended = self.at.seconds >= self.run.seconds
        return ended or (not self.run.tuning and self.at.seconds // every > before // every)

    def _evaluate(self) -> None:
        score = self.score("tuning" if self.run.tuning else "monitored")
        if not score.loss < float("inf"):
            self.curve.divergence = f"after step {self.at.steps}: evaluated loss {score.loss}"
            return
        curve, at = self.curve, self.at
        curve.seconds.append(at.seconds)
        curve.cpu_seconds.append(at.cpu_seconds)
        curve.steps.append(at.steps)
        curve.forward_passes.append(at.steps * forward_passes(self.run.arm))
        curve.flops.append(at.flops)
        curve.accuracy.append(score.accuracy)
        curve.loss.append(score.loss)
        if at.losses:
            curve.train_loss.append(sum(at.losses) / len(at.losses))
        at.losses = []
        self._saver.save(self._state)
        self._report(curve)

    def _state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state_dict(),
            "curve": self.curve.as_metrics(),
            "at": vars(self.at),
        }


class _Saver:
    """Saves as often as it is cheap."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._cost = 0.0
        self._last = time.perf_counter()

    def maybe(self, state: Callable[[], dict[str, Any]]) -> None:
        """Save if the last save was long enough ago for what it cost."""
        if (time.perf_counter() - self._last) * _SAVING > self._cost:
            self.save(state)

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Save now."""
        start = time.perf_counter()
        self._checkpoint.save(state())
        self._last = time.perf_counter()
        self._cost = self._last - start
