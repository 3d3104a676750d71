"""Time the epochs of all arms.

Kinds of results:

- ``epoch``: an arm; the point names engine, precision, method and batch size. The metrics are
  ``seconds``, the time of each phase in each timed epoch, and ``images``, the images of an epoch.
- ``machine``: the machine as the engine sees it. The metrics are its instruction set
  (``instructions``); the multiplications per second of a loop that only multiplies, in float32 and
  in int8 (``peak_fp32``, ``peak_int8``, the highest of each timed epoch); and the
  ``multiplications`` of one image's forward pass.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice, pairwise, product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_fig7 import Config
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.claims.execution_time import PHASES
from repro.core.names import Engine, MethodName, Precision
from repro.data.batches import batches
from repro.methods.step_info import PhaseTimer
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.ondevice.build import build as build_engine
from repro.ondevice.build import load
from repro.ondevice.layers import layer_table
from repro.training.build import build, build_learner
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.learners import FloatLearner, NativeLearner
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


def arms(config: Config) -> list[TimedRun]:
    """Return the arms in the order of their turns."""
    return [
        TimedRun(engine, precision, method, batch)
        for batch, method, precision, engine in product(
            config.batches, config.methods, config.precisions, config.engines
        )
    ]


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every arm's times; an interrupted run keeps its finished epochs.

    Raises:
        ReproError: the engine is to be timed and cannot be built, or a process failed.
    """
    native = "native" in config.engines
    if native:
        build_engine(otherwise="time PyTorch alone, with --engines torch")
    done = run_in_subprocesses(
        "elasticzo_fig7",
        partial(time_arms, config),
        [f"epoch {number + 1} of every method" for number in range(config.epochs)],
        lambda epoch: {"epoch": epoch},
        label=str,
        store=context.result_cache,
        workers=1,  # parallel processes would slow each other down
        preload=[__name__],
    )
    epochs = [metrics for _, metrics in done]
    images = epochs[0]["images"]
    for number, arm in enumerate(arms(config)):
        of_arm = [epoch["arms"][number] for epoch in epochs]
        seconds = {phase: [one[phase] for one in of_arm] for phase in PHASES}
        yield Result("epoch", asdict(arm), {"seconds": seconds, "images": images})
    if native:
        peaks = {name: [epoch[name] for epoch in epochs] for name in ("peak_fp32", "peak_int8")}
        multiplications = sum(
            layer.channels * layer.kernel_height * layer.kernel_width
            * layer.outputs * layer.rows * layer.columns
            for layer in layer_table(lenet5(), SAMPLE_SHAPE)
        )  # fmt: skip
        metrics = {"instructions": load().instruction_sets()[0], **peaks}
        yield Result("machine", {}, metrics | {"multiplications": multiplications})


def time_arms(config: Config, _epoch: str) -> dict[str, Any]:
    """Time one epoch of every arm; at the top level of the module for use in another process."""
    torch.set_num_threads(config.threads)
    engine = load() if "native" in config.engines else None
    peaks: dict[str, list[float]] = {"fp32": [], "int8": []}

    def measure_peaks() -> None:
        if engine is not None:
            peaks["fp32"].append(engine.peak_f32("auto"))
            peaks["int8"].append(engine.peak_i8("auto"))

    seconds, images = timed_epoch(arms(config), config.image_items, measure_peaks)
    best = {f"peak_{precision}": max(found) for precision, found in peaks.items() if found}
    return {"arms": seconds, "images": images, **best}


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
        # the optimizer's forward phase is the whole closure, with the loss
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
