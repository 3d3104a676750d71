"""Makes the learner and the items of a cell."""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from repro.core.limits import CLOUD_POINTS
from repro.data.batches import normalise, to_tensors
from repro.data.images.labelled import PIXELS
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.watch import PassesDifferWarning
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.models.pointnet import pointnet
from repro.ondevice.floating import NativeElasticZO
from repro.training.cell import Cell, FloatSettings
from repro.training.float_learner import FloatLearner
from repro.training.integers import integer_items, integer_learner
from repro.training.learner import Learner
from repro.training.loop import Split
from repro.training.native_learner import NativeLearner
from repro.training.partition import partition
from repro.training.problem import Problem, find, load
from repro.training.seeds import INITIAL, NOISE, derived_seed

_IMAGES, _CLOUDS = 500, 32
"""Items evaluated at a time; of clouds of 1,024 points a layer 1,024 wide has 4 MiB for each."""


_MONITORED_CLOUDS = 1_000
"""Training clouds whose loss is evaluated: all 9,843 would add half an epoch's time to each."""


def build(cell: Cell) -> tuple[Learner, Split]:
    """Return the learner of a cell, with random initial weights, and its items."""
    learner = build_learner(cell)  # first: it refuses what cannot be trained
    return learner, _split(cell) if cell.precision == "fp32" else integer_items(cell)


def build_learner(cell: Cell) -> Learner:
    """Return the learner of a cell, with random initial weights; no data set is read."""
    if isinstance(cell.settings, FloatSettings):
        make = _native_learner if cell.engine == "native" else _float_learner
        return make(cell, cell.settings)
    return integer_learner(cell, cell.settings)


def _float_learner(cell: Cell, settings: FloatSettings) -> FloatLearner:
    problem = find(cell.problem)
    model = _model(problem, derived_seed(cell.seed, INITIAL)).to(cell.device)
    optimizer: Backprop | ElasticZO
    if cell.method == "full_bp":
        optimizer = Backprop(model.parameters(), lr=settings.lr, rule=settings.rule)
    else:
        # batch norm in training mode, whose statistics both passes update, is the published method
        warnings.simplefilter("ignore", PassesDifferWarning)
        optimizer = ElasticZO(
            model,
            partition(problem.network, cell.method, model),
            lr=settings.lr,
            eps=settings.eps,
            clip=settings.clip,
            activations=settings.activations,
            seed=derived_seed(cell.seed, NOISE),
        )
    return FloatLearner(
        model,
        optimizer,
        prepare=_prepare(problem),
        decay=settings.decay,
        decay_every=settings.decay_every,
    )


def _native_learner(cell: Cell, settings: FloatSettings) -> NativeLearner:
    problem = find(cell.problem)
    model = _model(problem, derived_seed(cell.seed, INITIAL))
    images = problem.network == "lenet5"
    method = NativeElasticZO(
        model,
        SAMPLE_SHAPE if images else (cell.points or CLOUD_POINTS, 3),
        partition(problem.network, cell.method, model),
        lr=settings.lr,
        eps=settings.eps,
        clip=settings.clip,
        activations=settings.activations,
        seed=derived_seed(cell.seed, NOISE),
        capacity=max(settings.batch, _IMAGES if images else _CLOUDS),
        threads=torch.get_num_threads(),
    )
    return NativeLearner(
        method,
        prepare=_prepare(problem),
        decay=settings.decay,
        decay_every=settings.decay_every,
    )


def _model(problem: Problem, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if problem.network == "lenet5":
            return lenet5(classes=problem.classes)
        return pointnet(classes=problem.classes)


def _prepare(problem: Problem) -> Callable[[Tensor], Tensor]:
    if problem.pixels_of is None:
        return lambda clouds: clouds
    mean, deviation = PIXELS[problem.pixels_of]
    return partial(normalise, mean=mean, deviation=deviation)


def _split(cell: Cell) -> Split:
    images = find(cell.problem).network == "lenet5"
    arrays = load(cell.problem, cell.evaluation, train_items=cell.train_items, points=cell.points)
    return Split(
        *to_tensors(arrays.train_inputs, arrays.train_labels, cell.device),
        *to_tensors(arrays.eval_inputs, arrays.eval_labels, cell.device),
        monitored=10_000 if images else _MONITORED_CLOUDS,
        evaluated_at_once=_IMAGES if images else _CLOUDS,
    )
