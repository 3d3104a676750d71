"""Train every combination of the grid.

Kinds of results:

- ``run``: one combination; the point holds its hyperparameters, the metrics its curves. What the
  curves call test items are the held-out items.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_search import Config
from repro.artifacts.elasticzo_search.selection import Group, best
from repro.artifacts.shared.ablation import Ablation, Axis, run_ablations
from repro.core.names import MethodName, Precision
from repro.training.experiments import TrainingBudget, fine_tuning, from_scratch
from repro.training.hyperparameters import family
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.task import vision_task

_ANY_RATE = FloatSettings(lr=1.0)
"""Each grid sets a learning rate of its own."""
_SEARCHED = ("lr", "clip", "eps", "r_max")
_SEARCHED_IN_TUNING = ("r_max", "batch")


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each combination of problem, method, hyperparameters and seed.

    First the grids, then in float32 the line of other epsilons through the best point of each, then
    fine-tuning in integers.
    """

    def train(grids: Iterable[Ablation], coordinates: Sequence[str]) -> Iterator[Result]:
        made = run_ablations(grids, context, coordinates=coordinates, engine=config.engine)
        yield from (result for result, _ in made)

    found = []
    for result in train([*_float_grids(config), *_integer_grids(config)], _SEARCHED):
        if result.point["precision"] == "fp32":
            found.append(result)
        yield result
    yield from train(_epsilon_lines(config, best(found)), _SEARCHED)
    yield from train(_integer_tuning_grids(config), _SEARCHED_IN_TUNING)


def _grid(base: NetworkRun, **values: Sequence[float]) -> Ablation:
    """Return every combination of ``values`` of the settings, evaluated on held-out items."""
    axes = tuple(Axis(name, name, tuple(tried)) for name, tried in values.items())
    return Ablation([base], axes, every_combination=True, evaluation="validation")


def _float_grids(config: Config) -> Iterator[Ablation]:
    for problem, method, seed in _float_runs(config):
        if method == "full_bp":
            base = _base(config, problem, "fp32", method, seed, _ANY_RATE)
            yield _grid(base, lr=config.bp_learning_rates)
        else:
            settings = replace(_ANY_RATE, eps=config.eps)
            base = _base(config, problem, "fp32", method, seed, settings)
            yield _grid(base, lr=config.learning_rates, clip=config.clips)


def _epsilon_lines(config: Config, chosen: Mapping[Group, Mapping[str, Any]]) -> Iterator[Ablation]:
    for problem, method, seed in _float_runs(config):
        if method != "full_bp":
            at = chosen[family(problem), "fp32", method]
            settings = FloatSettings(lr=at["lr"], clip=at["clip"])
            base = _base(config, problem, "fp32", method, seed, settings)
            yield _grid(base, eps=config.other_eps)


def _float_runs(config: Config) -> Iterator[tuple[str, MethodName, int]]:
    if "fp32" in config.precisions:
        yield from product(config.problems, config.methods, config.seeds)


def _integer_grids(config: Config) -> Iterator[Ablation]:
    for problem, method, seed in _integer_runs(config, rotated=False):
        if method != "full_bp":  # NITI has nothing to search
            base = _base(config, problem, "int8", method, seed, IntegerSettings())
            yield _grid(base, r_max=config.r_maxes)


def _integer_tuning_grids(config: Config) -> Iterator[Ablation]:
    for problem, method, seed in _integer_runs(config, rotated=True):
        base = _base(config, problem, "int8", method, seed, IntegerSettings())
        perturbation = {} if method == "full_bp" else {"r_max": config.r_maxes}
        yield _grid(base, batch=config.integer_tuning_batches, **perturbation)


def _integer_runs(config: Config, *, rotated: bool) -> Iterator[tuple[str, MethodName, int]]:
    if "int8" in config.precisions:
        images = [
            problem
            for problem in config.problems
            if vision_task(problem).network == "lenet5"
            and (vision_task(problem).angle is not None) == rotated
        ]
        yield from product(images, config.methods, config.seeds)


def _base(
    config: Config,
    problem: str,
    precision: Precision,
    method: MethodName,
    seed: int,
    settings: FloatSettings | IntegerSettings,
) -> NetworkRun:
    if vision_task(problem).angle is not None:
        return fine_tuning(
            problem,
            precision,
            method,
            settings,
            seed=seed,
            epochs=config.fine_tuning_epochs,
            integer_pretraining_epochs=config.integer_pretraining_epochs,
            device=config.device,
        )
    return from_scratch(
        problem,
        precision,
        method,
        settings,
        seed=seed,
        images=TrainingBudget(config.epochs if precision == "fp32" else config.integer_epochs),
        clouds=TrainingBudget(config.cloud_epochs, config.cloud_items, config.cloud_points),
        device=config.device,
    )
