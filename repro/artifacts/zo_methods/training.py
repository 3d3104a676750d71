"""Train one method on one task, and measure the cost of its step.

All arms go through the suite's training loop; an arm only decides the optimizer.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from repro.artifacts.zo_methods.arms import ARMS, Kind
from repro.data.splits import sample
from repro.finetuning.base_models import load_base, load_config, random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.fine_tune import Prompts
from repro.finetuning.items import load_items
from repro.finetuning.learner import AnswerLearner, prepared
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.memory.fake_models import partition_before
from repro.memory.measured import measure_step
from repro.memory.setting import Setting
from repro.methods.noise import Noise
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.training.build import build
from repro.training.float_learner import FloatLearner
from repro.training.loop import Curve, EqualParts, Training
from repro.training.run import (
    NOISE,
    ORDER,
    FinalState,
    FloatSettings,
    NetworkRun,
    TrainingRun,
    derived_seed,
)
from repro.training.split import Split, SplitBatches
from repro.training.task import VISION_TASKS, partition

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SOURCES = ("artifacts/zo_methods", "finetuning", "memory")
"""Directories that decide the outcome of a run, besides those that ``CheckpointStore`` hashes."""
_MONITORED = 1000
"""Training images whose loss is evaluated."""


def kind_of(task: str) -> Kind:
    """Return whether ``task`` is one of images or of prompts."""
    return "images" if task in VISION_TASKS else "text"


@dataclass(frozen=True)
class MethodRun(TrainingRun):
    """One arm on one task at one learning rate, for a number of steps."""

    task: str
    """Name of a set of images, or of a task with prompts."""
    arm: str
    """Name of the arm in ``ARMS``."""
    lr: float
    eps: float
    batch: int
    steps: int
    evaluations: int
    """Number of evaluations, after equal parts of training."""
    evaluated_items: int
    """Number of test items evaluated; 0 for all."""
    tuning_items: int
    """Number of training items held out for choosing the learning rate."""
    train_items: int | None
    """Number of training images; by default all."""
    seed: int
    threads: int
    model: str = ""
    """The language model; empty for images."""
    context: int = 0
    """N, the longest prompt in tokens; 0 for images."""
    tuning: bool = False
    """Whether this is a run of the grid: evaluated once, at its end, on the held-out items."""
    sources: str = ""
    """Identifies the base weights and the prompts; not recorded."""
    device: Device = "cpu"
    is_timed = True

    def as_dict(self) -> dict[str, Any]:
        """Return the run as a record keeps it."""
        values = asdict(self)
        del values["sources"]
        return {name: value for name, value in values.items() if value is not None}

    def key(self) -> dict[str, Any]:
        """Return everything that identifies the run's state."""
        return asdict(self) | {"code": source_sha256(*_SOURCES)}

    def label(self) -> str:
        """Return a short label that identifies the run."""
        return f"{ARMS[self.arm].label} on {self.task}, lr {self.lr:g}, seed {self.seed}"

    def training(self, final_state: FinalState) -> Training[Any]:  # noqa: ARG002 - it has none
        """Build the learner and its items."""
        duration = EqualParts(self.evaluations, self.steps, 0.0, only_at_end=self.tuning)
        of = _images if kind_of(self.task) == "images" else _prompts
        learner, data = of(self)
        return Training(learner, data, duration, metrics=Curve.as_dict)


class _Optimizer(NamedTuple):
    """An optimizer and its source of directions."""

    optimizer: Any
    noise: Noise | None


def make_optimizer(
    arm: str, model: nn.Module, first: str | int, *, lr: float, eps: float, seed: int
) -> _Optimizer:
    """Return the optimizer of an arm and its source of directions.

    Args:
        arm: name of the arm.
        model: the model; its parameters that need gradients are trained.
        first: partition point of an arm with a tail.
        lr: learning rate.
        eps: scale of the perturbation.
        seed: seed of the sequence of perturbations.
    """
    spec = ARMS[arm]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    settings: dict[str, Any] = {"lr": lr, **spec.settings}
    noise = None
    if spec.noise is not None:
        noise = spec.noise(trained)
        settings |= {"eps": eps, "seed": seed, "noise": noise}
    if spec.has_tail:
        return _Optimizer(spec.optimizer(model, first, **settings), noise)
    return _Optimizer(spec.optimizer(trained, **settings), noise)


def _made(run: MethodRun, model: nn.Module, first: str | int) -> _Optimizer:
    seed = derived_seed(run.seed, NOISE)
    return make_optimizer(run.arm, model, first, lr=run.lr, eps=run.eps, seed=seed)


def _images(run: MethodRun) -> tuple[FloatLearner, SplitBatches]:
    """Return LeNet-5 with random weights under the arm's optimizer, and its images."""
    backprop = NetworkRun(
        run.task,
        "fp32",
        "full_bp",
        FloatSettings(lr=run.lr, batch=run.batch),
        epochs=1,
        seed=run.seed,
        evaluation="validation" if run.tuning else "test",
        train_items=run.train_items,
    )
    built, split = build(backprop)
    assert isinstance(built, FloatLearner)  # noqa: S101 - for the type checker
    model = built.model
    optimizer = _made(run, model, _first_layer(model)).optimizer
    learner = FloatLearner(model, optimizer, prepare=built.prepare, decay=1, decay_every=1)
    items = run.tuning_items if run.tuning else run.evaluated_items
    order = derived_seed(run.seed, ORDER)
    return learner, SplitBatches(_evaluated(split, items), run.batch, order)


def _evaluated(split: Split, items: int) -> Split:
    """Return the split with only ``items`` items for evaluation, if it has more; 0 for all."""
    split = replace(split, monitored=slice(_MONITORED))
    if not 0 < items < len(split.eval_inputs):
        return split
    some = torch.from_numpy(sample(len(split.eval_inputs), items, seed=0))
    return replace(split, eval_inputs=split.eval_inputs[some], eval_labels=split.eval_labels[some])


def _first_layer(model: nn.Module) -> str | int:
    """Return the partition point of LeNet-5: the last two layers are the tail."""
    assert isinstance(model, nn.Sequential)  # noqa: S101 - for the type checker
    return partition("lenet5", "cls1", model)


def _prompts(run: MethodRun) -> tuple[AnswerLearner, Prompts]:
    """Return the pretrained model under the arm's optimizer, and its prompts."""
    pretrained = load_base(run.model, "float32")
    items = load_items(
        run.task,
        pretrained.tokenizer,
        tuning=run.tuning_items,
        monitored=run.evaluated_items,
        final=run.evaluated_items,
        context=run.context,
    )
    model = _fine_tuned(pretrained.model, run)
    optimizer, noise = _made(run, model, partition_before(model, Setting.tail))
    learner = AnswerLearner(model, items.train.answers, optimizer, lambda _: noise)
    return learner, Prompts(items, run)


def _fine_tuned(model: "PreTrainedModel", run: MethodRun) -> "PreTrainedModel":
    return prepared(model, "lora" if ARMS[run.arm].trains_adapters else "bp", run.seed)


def measure_cost(run: MethodRun) -> dict[str, Any]:
    """Return the cost of a step in forward passes, and its peak memory; call it in a fresh process.

    FLOPs are counted by PyTorch's counter, over convolutions, matrix products and attention; the
    forward pass is of the model without adapters. The memory is the peak of the weights and of a
    step together, above the batch, in the allocator of the host. The weights are random, as neither
    depends on them.
    """
    torch.set_num_threads(run.threads)
    torch.manual_seed(0)
    build, bare, loss, first = _step_parts(run)

    def start(model: nn.Module) -> Callable[[], object]:
        closure = loss(model)
        optimizer = _made(run, model, first(model)).optimizer
        return lambda: optimizer.step(closure)

    with torch.no_grad():
        forward = _flops(loss(bare()))
    step = _flops(start(build()))
    peak = measure_step(build, start, run.device)
    if peak is None:
        return {"out_of_memory": f"a step of {run.label()} exceeds the memory of this machine"}
    return {"forwards": step / forward, "forward_flops": forward, **peak.as_metrics()}


class _StepParts(NamedTuple):
    """The parts of a step whose cost is measured."""

    build: Callable[[], Any]
    """Makes the model that the arm trains, with random weights."""
    bare: Callable[[], Any]
    """Makes the model without adapters."""
    loss: Callable[[Any], Callable[[], Tensor]]
    """Returns the loss of a model on a batch of full size."""
    first: Callable[[Any], str | int]
    """Returns the partition point."""


def _step_parts(run: MethodRun) -> _StepParts:
    if kind_of(run.task) == "images":
        images = torch.zeros(run.batch, *SAMPLE_SHAPE)
        classes = torch.zeros(run.batch, dtype=torch.long)
        network = partial(lenet5, classes=VISION_TASKS[run.task].classes)
        return _StepParts(
            network,
            network,
            lambda model: lambda: cross_entropy(model(images), classes),
            _first_layer,
        )
    config = load_config(run.model)
    tokens = torch.zeros(run.batch, run.context, dtype=torch.long)
    last = torch.full((run.batch,), run.context - 1)
    batch = Batch(tokens, last, torch.zeros_like(last))

    def loss(model: "PreTrainedModel") -> Callable[[], Tensor]:
        classifier = AnswerClassifier(model, np.array([0, 1], np.int32))
        return lambda: classifier.loss(batch)

    return _StepParts(
        lambda: _fine_tuned(random_model(config, "float32"), run),
        lambda: random_model(config, "float32"),
        loss,
        lambda model: partition_before(model, Setting.tail),
    )


def _flops(function: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())
