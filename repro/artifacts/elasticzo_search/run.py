"""Train every combination of the grid.

Kinds of results:

- ``run``: one combination; the point holds its hyperparameters, the metrics its curves. What the
  curves call test items are the held-out items.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results
from repro.artifacts.elasticzo_search import Config
from repro.artifacts.elasticzo_search.selection import Group, best
from repro.core.names import MethodName, Precision
from repro.training.cell import Cell, FloatSettings, IntegerSettings
from repro.training.chosen import family
from repro.training.experiments import Length, fine_tuning, from_scratch
from repro.training.problem import find

_SEARCHED = ("lr", "clip", "eps", "r_max")
_SEARCHED_IN_TUNING = ("r_max", "batch")


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each combination of problem, method, hyperparameters and seed.

    First the grids, then in float32 the line of other epsilons through the best point of each, then
    fine-tuning in integers.
    """
    found = []
    grids = [*_float_cells(config), *_integer_cells(config)]
    for result in results(grids, context, extra=_SEARCHED, engine=config.engine):
        if result.point["precision"] == "fp32":
            found.append(result)
        yield result
    lines = _lines(config, best(found))
    yield from results(lines, context, extra=_SEARCHED, engine=config.engine)
    tuned = _integer_tuning_cells(config)
    yield from results(tuned, context, extra=_SEARCHED_IN_TUNING, engine=config.engine)


def _float_cells(config: Config) -> Iterator[Cell]:
    for problem, method, seed in _float_runs(config):
        if method == "full_bp":
            grid = [FloatSettings(lr=lr) for lr in config.bp_learning_rates]
        else:
            grid = [
                FloatSettings(lr=lr, clip=clip, eps=config.eps)
                for lr, clip in product(config.learning_rates, config.clips)
            ]
        yield from (_cell(config, problem, "fp32", method, seed, point) for point in grid)


def _lines(config: Config, chosen: Mapping[Group, Mapping[str, Any]]) -> Iterator[Cell]:
    for problem, method, seed in _float_runs(config):
        if method != "full_bp":
            at = chosen[family(problem), "fp32", method]
            for eps in config.other_eps:
                point = FloatSettings(lr=at["lr"], clip=at["clip"], eps=eps)
                yield _cell(config, problem, "fp32", method, seed, point)


def _float_runs(config: Config) -> Iterator[tuple[str, MethodName, int]]:
    if "fp32" in config.precisions:
        yield from product(config.problems, config.methods, config.seeds)


def _integer_cells(config: Config) -> Iterator[Cell]:
    for problem, method, seed in _integer_runs(config, rotated=False):
        if method != "full_bp":  # NITI has nothing to search
            for r_max in config.r_maxes:
                yield _cell(config, problem, "int8", method, seed, IntegerSettings(r_max=r_max))


def _integer_tuning_cells(config: Config) -> Iterator[Cell]:
    for problem, method, seed in _integer_runs(config, rotated=True):
        for batch in config.integer_tuning_batches:
            batched = IntegerSettings(batch=batch)
            grid = (replace(batched, r_max=r_max) for r_max in config.r_maxes)
            for point in (batched,) if method == "full_bp" else grid:
                yield _cell(config, problem, "int8", method, seed, point)


def _integer_runs(config: Config, *, rotated: bool) -> Iterator[tuple[str, MethodName, int]]:
    if "int8" in config.precisions:
        images = [
            problem
            for problem in config.problems
            if find(problem).network == "lenet5" and (find(problem).angle is not None) == rotated
        ]
        yield from product(images, config.methods, config.seeds)


def _cell(
    config: Config,
    problem: str,
    precision: Precision,
    method: MethodName,
    seed: int,
    settings: FloatSettings | IntegerSettings,
) -> Cell:
    if find(problem).angle is not None:
        cell = fine_tuning(
            problem,
            precision,
            method,
            settings,
            seed=seed,
            epochs=config.fine_tuning_epochs,
            integer_pretraining_epochs=config.integer_pretraining_epochs,
            device=config.device,
        )
        return replace(cell, evaluation="validation")
    cell = from_scratch(
        problem,
        precision,
        method,
        settings,
        seed=seed,
        images=Length(config.epochs if precision == "fp32" else config.integer_epochs),
        clouds=Length(config.cloud_epochs, config.cloud_items, config.cloud_points),
        device=config.device,
    )
    return replace(cell, evaluation="validation")
