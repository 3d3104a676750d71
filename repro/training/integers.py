"""The integer learner of a cell, and its items as integers."""

from typing import Any

import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.data.base import Array
from repro.data.batches import normalise, to_tensors
from repro.data.images.labelled import PIXELS
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.learner import IntegerLearner, IntegerMethod
from repro.integer.network import IntegerNetwork
from repro.integer.quantise import quantise
from repro.integer.schedule import PAPER, Phase, Schedule
from repro.integer.tensor import IntegerTensor
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.ondevice.integer import NativeElasticZOInt8
from repro.training.cell import SIGNS, Cell, IntegerSettings
from repro.training.loop import Split
from repro.training.partition import partition
from repro.training.problem import Problem, find, load
from repro.training.seeds import INITIAL, NOISE, derived_seed
from repro.training.sign_counts import SignCounter

_LEVELS = 256  # of a pixel


def integer_learner(cell: Cell, settings: IntegerSettings) -> IntegerLearner[Any] | SignCounter:
    """Return the learner of a cell in integers, with random initial weights.

    Raises:
        UsageError: the problem is not one of images; the paper's integer networks are LeNet-5.
    """
    problem = find(cell.problem)
    if problem.pixels_of is None:
        msg = f"{cell.problem} in {cell.precision}: integer training is for sets of images"
        raise UsageError(msg)
    structure = lenet5(bias=False, classes=problem.classes)
    network = IntegerNetwork.random(
        structure, seed=derived_seed(cell.seed, INITIAL), policy=settings.shift_policy
    )
    tail = partition(problem.network, cell.method, structure)
    choices: dict[str, Any] = {
        "r_max": settings.r_max,
        "b_zo": settings.b_zo,
        "sign": settings.sign or SIGNS[cell.precision][0],
        "activations": settings.activations,
        "restore": settings.restore,
        "seed": derived_seed(cell.seed, NOISE),
    }
    exponent = quantised_levels(problem).exponent
    schedule = Schedule(cell.epochs, _phases(settings.p_zero))
    method: IntegerMethod
    if cell.engine == "native":
        method = NativeElasticZOInt8(
            network,
            structure,
            SAMPLE_SHAPE,
            tail,
            **choices,
            capacity=max(settings.batch, Split.evaluated_at_once),
            threads=torch.get_num_threads(),
        )
    else:
        method = ElasticZOInt8(network.to(cell.device), tail, **choices)
    learner = IntegerLearner(method, exponent, schedule)
    return SignCounter(learner) if cell.signs else learner


def integer_items(cell: Cell) -> Split:
    """Return the items of a cell as integers."""
    arrays = load(cell.problem, cell.evaluation, train_items=cell.train_items)
    levels = quantised_levels(find(cell.problem)).values

    def items(images: Array, labels: Array) -> tuple[Tensor, Tensor]:
        pixels, classes = to_tensors(images, labels)
        return levels[pixels.int()].unsqueeze(1).to(cell.device), classes.to(cell.device)

    return Split(
        *items(arrays.train_inputs, arrays.train_labels),
        *items(arrays.eval_inputs, arrays.eval_labels),
    )


def quantised_levels(problem: Problem) -> IntegerTensor:
    """Return the integer for each grey level of a set's images: int8 [256].

    A pixel has 256 values, so the set's largest magnitude, which decides the exponent, is that of
    black or white.
    """
    assert problem.pixels_of is not None  # noqa: S101 - every set of images has one
    greys = torch.arange(_LEVELS, dtype=torch.uint8).view(_LEVELS, 1, 1)
    levels = quantise(normalise(greys, *PIXELS[problem.pixels_of]))
    return IntegerTensor(levels.values.view(-1), levels.exponent)


def _phases(p_zero: float | None) -> tuple[Phase, ...]:
    """Return the paper's phases, with one sparsity for all of them if it is given."""
    if p_zero is None:
        return PAPER
    return tuple(Phase(phase.start, phase.b_bp, p_zero) for phase in PAPER)
