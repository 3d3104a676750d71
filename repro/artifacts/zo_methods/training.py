"""Train one method on one task, and measure the cost of its step.

All arms go through the suite's training loop; an arm only decides the optimizer.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from repro.artifacts.zo_methods import kind_of
from repro.artifacts.zo_methods.arms import ARMS
from repro.data.splits import sample
from repro.data.text.tasks import task_of_seed
from repro.finetuning.base_models import load_base, load_config, placed, random_model
from repro.finetuning.batches import blank
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.fine_tune import Prompts, counts_of
from repro.finetuning.items import load_items
from repro.finetuning.learner import AnswerLearner, prepared
from repro.finetuning.run import PromptRun
from repro.finetuning.sources import require_sources
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.memory.fake_models import partition_before
from repro.memory.measured import measure_step
from repro.memory.setting import Setting
from repro.models.lenet5 import SAMPLE_SHAPE
from repro.models.networks import NETWORKS
from repro.ondevice.build import module_path
from repro.training.build import build
from repro.training.learners import FloatLearner
from repro.training.loop import Curve, EqualParts, Training
from repro.training.run import (
    NOISE,
    ORDER,
    FinalState,
    FloatSettings,
    NetworkRun,
    derived_seed,
)
from repro.training.split import SplitBatches
from repro.training.task import VISION_TASKS, partition

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SOURCES = ("artifacts/zo_methods", "finetuning", "memory", "ondevice")
"""Directories that decide the outcome of a run, besides those that ``CheckpointStore`` hashes."""
_MONITORED = 1000
"""Training images whose loss is evaluated."""


@dataclass(frozen=True)
class MethodRun(PromptRun):
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
    """Number of held-out training items evaluated to choose the learning rate; no other prompts
    are held out, but a tenth of the images."""
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
        key = asdict(self) | {"code": source_sha256(*_SOURCES)}
        if needs_engine(self.arm, self.task, self.device):
            key["engine"] = module_path().parent.name  # a hash of its sources
        return key

    def label(self) -> str:
        """Return a short label that identifies the run."""
        return f"{ARMS[self.arm].label} on {self.task}, lr {self.lr:g}, seed {self.seed}"

    def training(self, final_state: FinalState) -> Training[Any]:  # noqa: ARG002 - it has none
        """Build the learner and its items."""
        duration = EqualParts(self.evaluations, self.steps, 0.0, only_at_end=self.tuning)
        if kind_of(self.task) == "images":
            return Training(*_images(self), duration, metrics=Curve.as_dict)
        learner, data, counts = _prompts(self)
        return Training(learner, data, duration, metrics=lambda c: c.as_dict() | counts)


def needs_engine(arm: str, task: str, device: Device) -> bool:
    """Return whether the on-device engine draws the directions of an arm."""
    return ARMS[arm].noise is not None and kind_of(task) == "text" and device == "cpu"


def _optimizer(run: MethodRun, model: nn.Module) -> Any:  # noqa: ANN401 - of any method
    """Return the optimizer of a run's arm; parameters that need gradients are trained."""
    arm = ARMS[run.arm]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    settings: dict[str, Any] = {"lr": run.lr, **arm.settings}
    if arm.noise is not None:
        seed, noise = derived_seed(run.seed, NOISE), arm.noise(trained, kind_of(run.task))
        settings |= {"eps": run.eps, "seed": seed, "noise": noise}
    if not arm.has_tail:
        return arm.optimizer(trained, **settings)
    first: str | int  # the tail begins here: LeNet-5's last two layers, or the last block
    if isinstance(model, nn.Sequential):
        first = partition(VISION_TASKS[run.task].network, "cls1", model)
    else:
        first = partition_before(model, Setting.tail)
    return arm.optimizer(model, first, **settings)


def _images(run: MethodRun) -> tuple[FloatLearner, SplitBatches]:
    """Return LeNet-5 with random weights under the arm's optimizer, and its images."""
    # only for its network, its images and their preparation; the arm has its own optimizer
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
    optimizer = _optimizer(run, built.model)
    learner = FloatLearner(built.model, optimizer, prepare=built.prepare, decay=1, decay_every=1)
    split = replace(split, monitored=slice(_MONITORED))
    items = run.tuning_items if run.tuning else run.evaluated_items
    if 0 < items < len(split.eval_inputs):
        some = torch.from_numpy(sample(len(split.eval_inputs), items, seed=0))
        inputs, labels = split.eval_inputs[some], split.eval_labels[some]
        split = replace(split, eval_inputs=inputs, eval_labels=labels)
    return learner, SplitBatches(split, run.batch, derived_seed(run.seed, ORDER))


def _prompts(run: MethodRun) -> tuple[AnswerLearner, Prompts, dict[str, Any]]:
    """Return the pretrained model under the arm's optimizer, its prompts, and their counts."""
    require_sources(run.sources, run.model, run.task)
    pretrained = load_base(run.model, "float32")
    items = load_items(
        task_of_seed(run.task, run.seed),
        pretrained.tokenizer,
        tuning=run.tuning_items,
        monitored=run.evaluated_items,
        final=run.evaluated_items,
        context=run.context,
    )
    model = placed(_fine_tuned(pretrained.model, run), run.device)
    learner = AnswerLearner(model, items.train.answers, _optimizer(run, model))
    return learner, Prompts(items, run), counts_of(items, run.context)


def _fine_tuned(model: "PreTrainedModel", run: MethodRun) -> "PreTrainedModel":
    return prepared(model, "lora" if ARMS[run.arm].trains_adapters else "bp", run.seed)


def measure_cost(run: MethodRun) -> dict[str, Any]:
    """Return the cost of a step in forward passes, and its peak memory; call it in a fresh process.

    FLOPs are counted by PyTorch's counter, over convolutions, matrix products and attention; the
    forward pass is of the model without adapters. The memory is the peak of the weights, the
    optimizer's state and a step together, above the batch, in the allocator of the device. The
    weights are random, as neither depends on them.
    """
    torch.set_num_threads(run.threads)
    torch.manual_seed(0)
    images = kind_of(run.task) == "images"
    bare, loss = _images_step(run) if images else _prompts_step(run)

    def make() -> nn.Module:
        return bare() if images else _fine_tuned(bare(), run)

    def start(model: nn.Module) -> Callable[[], object]:
        closure, optimizer = loss(model), _optimizer(run, model)
        return lambda: optimizer.step(closure)

    with torch.device(run.device):
        with torch.no_grad():
            forward = _flops(loss(bare()))
        step = _flops(start(make()))
    peak = measure_step(make, start, run.device)
    if peak is None:
        return {"out_of_memory": f"a step of {run.label()} exceeds the memory of this machine"}
    return {"forwards": step / forward, "forward_flops": forward, **peak.as_metrics()}


_Step = tuple[Callable[[], Any], Callable[[Any], Callable[[], Tensor]]]
"""Makes the model with random weights, without adapters; returns a model's loss on a full batch."""


def _images_step(run: MethodRun) -> _Step:
    images = torch.zeros(run.batch, *SAMPLE_SHAPE)
    classes = torch.zeros(run.batch, dtype=torch.long)
    task = VISION_TASKS[run.task]
    network = partial(NETWORKS[task.network], classes=task.classes)
    return network, lambda model: lambda: cross_entropy(model(images), classes)


def _prompts_step(run: MethodRun) -> _Step:
    config = load_config(run.model)
    batch = blank(run.batch, run.context, run.device)

    def loss(model: "PreTrainedModel") -> Callable[[], Tensor]:
        classifier = AnswerClassifier(model, np.array([0, 1], np.int32))
        return lambda: classifier.loss(batch)

    return lambda: random_model(config, "float32"), loss


def _flops(function: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())
