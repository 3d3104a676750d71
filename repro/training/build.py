"""Build the training of a network from its run: the learner and its items."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from repro.core.validation import CLOUD_POINTS
from repro.data.arrays import Array
from repro.data.batches import normalise, to_tensors
from repro.data.images.labelled import PIXELS
from repro.integer.elasticzo_int8 import Algorithm2, ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.quantise import quantise
from repro.integer.schedule import PAPER, Phase, Schedule
from repro.integer.tensor import IntegerTensor
from repro.measurement.device import require_same_bits
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.models.lenet5 import SAMPLE_SHAPE
from repro.models.networks import NETWORKS
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8
from repro.training.learners import FloatLearner, IntegerLearner, NativeLearner
from repro.training.loop import Curve, Epochs, Labelled, NetworkLearner, Training
from repro.training.run import (
    AUGMENTATION,
    INITIAL,
    NOISE,
    ORDER,
    SIGNS,
    FinalState,
    FloatSettings,
    IntegerSettings,
    NetworkRun,
    derived_seed,
)
from repro.training.split import CloudAugmentation, Split, SplitBatches
from repro.training.task import VisionTask, load, partition, vision_task

_IMAGES, _CLOUDS = 500, 32
"""Items evaluated at a time; for a cloud of 1,024 points, a layer of width 1,024 needs 4 MiB."""
_MONITORED_IMAGES, _MONITORED_CLOUDS = 10_000, 1_000
"""Training items whose loss is evaluated; all 9,843 clouds would make epochs half as long again."""
_LEVELS = 256  # grey levels of a pixel


def network_training(run: NetworkRun, final_state: FinalState) -> Training[Labelled]:
    """Return learner, minibatches and duration of ``run``."""
    if run.device == "cuda":
        require_same_bits()
    learner, split = build(run)
    divergence = ""
    if run.start is not None:
        before = final_state(run.start)
        learner.load_weights(before["learner"])
        if reason := Curve(**before["curve"]).divergence:  # it diverged; these are its last weights
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


def build(run: NetworkRun) -> tuple[NetworkLearner, Split]:
    """Return the learner of a run, with random initial weights, and its items."""
    learner = build_learner(run)  # first, since it refuses unsupported runs
    task = vision_task(run.task)
    arrays = load(run.task, run.evaluation, train_items=run.train_items, points=run.points)

    def items(inputs: Array, labels: Array) -> tuple[Tensor, Tensor]:
        if run.precision == "fp32":
            return to_tensors(inputs, labels, run.device)
        pixels, classes = to_tensors(inputs, labels)
        # uint8 would select like a mask, and int64 indices take twice the memory
        values = quantised_levels(task).values[pixels.int()]
        return values.unsqueeze(1).to(run.device), classes.to(run.device)

    split = Split(
        *items(arrays.train_inputs, arrays.train_labels),
        *items(arrays.eval_inputs, arrays.eval_labels),
        monitored=evenly(len(arrays.train_labels)) if task.of_clouds else slice(_MONITORED_IMAGES),
        evaluated_at_once=_CLOUDS if task.of_clouds else _IMAGES,
    )
    return learner, split


def evenly(items: int) -> slice:
    """Return the training clouds whose loss is evaluated, at most ``_MONITORED_CLOUDS``.

    They are spread over all items: ModelNet40 lists its clouds class by class, so its first 1,000
    have three of its 40 classes.
    """
    return slice(None, None, -(-items // _MONITORED_CLOUDS))


def build_learner(run: NetworkRun) -> NetworkLearner:
    """Return the learner of a run, with random initial weights; no data set is read."""
    if isinstance(run.settings, IntegerSettings):
        return _integer_learner(run, run.settings)
    return _float_learner(run, run.settings)


def quantised_levels(task: VisionTask) -> IntegerTensor:
    """Return the integer for each grey level of a set's images: int8 [256].

    A pixel has 256 values, so the set's largest magnitude, which decides the exponent, belongs to
    black or white.
    """
    assert task.pixels_of is not None  # noqa: S101 - every set of images has one
    greys = torch.arange(_LEVELS, dtype=torch.uint8).view(_LEVELS, 1, 1)
    levels = quantise(normalise(greys, *PIXELS[task.pixels_of]))
    return IntegerTensor(levels.values.view(-1), levels.exponent)


def _float_learner(run: NetworkRun, settings: FloatSettings) -> FloatLearner:
    task = vision_task(run.task)
    # on the host: a GPU gets the same weights, and no GPU's generator has to be saved
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(run.seed, INITIAL))
        model = NETWORKS[task.network](classes=task.classes)
        if settings.initial_weights == "he":
            draw_he_weights(model)
    model.to(run.device).train(settings.batch_norm == "batch")
    first = partition(task.network, run.method, model)
    zeroth_order: dict[str, Any] = {
        "lr": settings.lr,
        "eps": settings.eps,
        "clip": settings.clip,
        "activations": settings.activations,
        "seed": derived_seed(run.seed, NOISE),
    }
    learner = FloatLearner
    optimizer: Backprop | ElasticZO | NativeElasticZO
    if run.engine == "native":
        learner = NativeLearner
        optimizer = NativeElasticZO(
            model,
            (run.points or CLOUD_POINTS, 3) if task.of_clouds else SAMPLE_SHAPE,
            first,
            **zeroth_order,
            capacity=max(settings.batch, _CLOUDS if task.of_clouds else _IMAGES),
            threads=torch.get_num_threads(),
        )
    elif run.method == "full_bp":
        optimizer = Backprop(model.parameters(), lr=settings.lr, rule=settings.rule)
    else:
        optimizer = ElasticZO(model, first, **zeroth_order)
    prepare: Callable[[Tensor], Tensor] = nn.Identity()
    if task.pixels_of is not None:
        mean, deviation = PIXELS[task.pixels_of]
        prepare = partial(normalise, mean=mean, deviation=deviation)
    return learner(
        model,
        optimizer,
        prepare=prepare,
        decay=settings.decay,
        decay_every=settings.decay_every,
    )


def draw_he_weights(model: nn.Module) -> None:
    """Draw the weights from He et al.'s normal distribution; all biases become 0.

    The standard deviation is sqrt(2 / fan-in) (arXiv 1502.01852, section 2.2).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _integer_learner(run: NetworkRun, settings: IntegerSettings) -> IntegerLearner:
    task = vision_task(run.task)
    with torch.device("meta"):  # its weights are not used, so they get no memory
        structure = NETWORKS[task.network](bias=False, classes=task.classes)
    network = IntegerNetwork.random(
        structure, seed=derived_seed(run.seed, INITIAL), policy=settings.shift_policy
    )
    first = partition(task.network, run.method, structure)
    choices: dict[str, Any] = {
        "r_max": settings.r_max,
        "b_zo": settings.b_zo,
        "sign": settings.sign or SIGNS[run.precision][0],
        "activations": settings.activations,
        "restore": settings.restore,
        "seed": derived_seed(run.seed, NOISE),
    }
    method: Algorithm2
    if run.engine == "native":
        method = NativeElasticZOInt8(
            network,
            structure,
            SAMPLE_SHAPE,
            first,
            **choices,
            capacity=max(settings.batch, _IMAGES),
            threads=torch.get_num_threads(),
        )
    else:
        method = ElasticZOInt8(network.to(run.device), first, **choices)
    phases: tuple[Phase, ...] = PAPER
    if settings.p_zero is not None:  # it replaces the sparsity of all phases
        phases = tuple(replace(phase, p_zero=settings.p_zero) for phase in PAPER)
    schedule = Schedule(run.epochs, phases)
    exponent = quantised_levels(task).exponent
    return IntegerLearner(method, exponent, schedule, count_signs=run.signs)
