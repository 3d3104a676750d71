"""Makes the learner and the items of a cell."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from repro.data.batches import normalise, to_tensors
from repro.data.images.labelled import PIXELS
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet
from repro.training.cell import Cell, FloatSettings, MethodName
from repro.training.float_learner import FloatLearner
from repro.training.learner import Learner
from repro.training.loop import Split
from repro.training.problem import Network, Problem, find, load

_INITIAL, _ORDER, _NOISE = range(3)  # what a seed is used for; each has a stream of its own

TAILS: dict[Network, dict[MethodName, str | None]] = {
    "lenet5": {"full_zo": None, "cls2": "fc3", "cls1": "fc2", "full_bp": "conv1"},
    "pointnet": {"full_zo": None, "cls2": "fc8", "cls1": "fc7", "full_bp": "fc1"},
}
"""The first layer trained by backpropagation, by network and method; none is."""


def build(cell: Cell) -> tuple[Learner, Split]:
    """Return the learner of a cell, with random initial weights, and its items."""
    if isinstance(cell.settings, FloatSettings):
        return _float_learner(cell, cell.settings), _split(cell)
    raise NotImplementedError


def order_seed(cell: Cell) -> int:
    """Return the seed of the order of the items."""
    return derived_seed(cell.seed, _ORDER)


def derived_seed(seed: int, use: int) -> int:
    """Return an independent seed for one ``use`` of a run's seed, below 2**32."""
    return int(np.random.SeedSequence([seed, use]).generate_state(1)[0])


def partition(network: Network, method: MethodName, model: nn.Module) -> str | int:
    """Return the partition point of ``model``: the first layer trained by backpropagation."""
    tail = TAILS[network][method]
    return len(list(model.children())) if tail is None else tail


def _float_learner(cell: Cell, settings: FloatSettings) -> FloatLearner:
    problem = find(cell.problem)
    model = _model(problem, derived_seed(cell.seed, _INITIAL)).to(cell.device)
    optimizer: Backprop | ElasticZO
    if cell.method == "full_bp":
        optimizer = Backprop(model.parameters(), lr=settings.lr, rule=settings.rule)
    else:
        optimizer = ElasticZO(
            model,
            partition(problem.network, cell.method, model),
            lr=settings.lr,
            eps=settings.eps,
            clip=settings.clip,
            activations=settings.activations,
            seed=derived_seed(cell.seed, _NOISE),
        )
    return FloatLearner(
        model,
        optimizer,
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
    arrays = load(cell.problem, cell.evaluation, train_items=cell.train_items, points=cell.points)
    return Split(
        *to_tensors(arrays.train_inputs, arrays.train_labels, cell.device),
        *to_tensors(arrays.eval_inputs, arrays.eval_labels, cell.device),
    )
