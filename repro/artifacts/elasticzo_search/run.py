"""Train every combination of the grid.

Kinds of results:

- ``run``: one combination; the point holds its hyperparameters, the metrics its curves. The test
  items of these curves are the held-out items.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_search import Config
from repro.artifacts.elasticzo_search.selection import Group, best
from repro.artifacts.shared.ablation import change
from repro.artifacts.shared.images import RotatedRuns
from repro.artifacts.shared.training_runs import (
    TrainingBudget,
    each_part,
    results,
    rotated_run,
    scratch_run,
)
from repro.core.names import MethodName, Precision
from repro.training.hyperparameters import family
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.task import vision_task

_ANY_RATE = FloatSettings(lr=1.0)
"""A placeholder: each grid sets its own learning rates."""
_SEARCHED = ("lr", "clip", "eps", "r_max")


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each combination of task, method, hyperparameters and seed.

    The grids come first, then fine-tuning in integers. The lines of other epsilons through the best
    points of float32 are last.

    Raises:
        RunsFailedError: some runs failed; all that do not depend on them were trained.
    """
    grids = [*_float_grids(config), *_integer_grids(config, rotated=False)]
    tuning = _integer_grids(config, rotated=True)
    found = []
    for result in each_part(
        (
            results(grids, context, _SEARCHED, config.engine),
            results(tuning, context, ("r_max", "batch"), config.engine),
        )
    ):
        if result.point["precision"] == "fp32":
            found.append(result)
        yield result
    lines = _float_grids(config, best(found))
    yield from results(lines, context, _SEARCHED, config.engine)


def _grid(base: NetworkRun, **values: Sequence[float]) -> Iterator[NetworkRun]:
    """Yield every combination of ``values`` of the settings, evaluated on held-out items."""
    for combined in product(*values.values()):
        run = change(base, dict(zip(values, combined, strict=True)))
        yield replace(run, evaluation="validation")


def _float_grids(
    config: Config, chosen: Mapping[Group, Mapping[str, Any]] | None = None
) -> Iterator[NetworkRun]:
    """Yield the grids in float32, or the lines of other epsilons through the points ``chosen``."""
    runs = product(config.problems, config.methods, config.seeds)
    for problem, method, seed in runs if "fp32" in config.precisions else ():
        base = partial(_base, config, problem, "fp32", method, seed)
        if method == "full_bp":
            if chosen is None:
                yield from _grid(base(_ANY_RATE), lr=config.bp_learning_rates)
        elif chosen is None:
            settings = replace(_ANY_RATE, eps=config.eps)
            yield from _grid(base(settings), lr=config.learning_rates, clip=config.clips)
        else:
            at = chosen[family(problem), "fp32", method]
            settings = FloatSettings(lr=at["lr"], clip=at["clip"])
            yield from _grid(base(settings), eps=config.other_eps)


def _integer_grids(config: Config, *, rotated: bool) -> Iterator[NetworkRun]:
    """Yield the grids on upright images or, with batch sizes as another axis, on rotated ones.

    Table 2 has no INT8*, so on rotated images there is nothing to search for.
    """
    tasks = {problem: vision_task(problem) for problem in config.problems}
    images = [
        problem
        for problem, task in tasks.items()
        if not task.of_clouds and (task.angle is not None) == rotated
    ]
    tabled: tuple[Precision, ...] = ("int8",) if rotated else ("int8", "int8_star")
    searched = [precision for precision in tabled if precision in config.precisions]
    for problem, precision, method, seed in product(images, searched, config.methods, config.seeds):
        axes = {"batch": config.integer_tuning_batches} if rotated else {}
        if method != "full_bp":
            axes["r_max"] = config.r_maxes
        if axes:  # NITI has nothing to search
            base = _base(config, problem, precision, method, seed, IntegerSettings())
            yield from _grid(base, **axes)


def _base(
    config: Config,
    problem: str,
    precision: Precision,
    method: MethodName,
    seed: int,
    settings: FloatSettings | IntegerSettings,
) -> NetworkRun:
    task = vision_task(problem)
    if task.pixels_of is not None and task.angle is not None:
        runs = RotatedRuns(
            epochs=config.fine_tuning_epochs,
            integer_pretraining_epochs=config.integer_pretraining_epochs,
            image_items=config.image_items,
            device=config.device,
        )
        return rotated_run(runs, task.pixels_of, task.angle, precision, method, seed, settings)
    epochs = config.epochs if precision == "fp32" else config.integer_epochs
    budget = TrainingBudget(epochs, config.image_items)
    if task.of_clouds:
        budget = TrainingBudget(config.cloud_epochs, config.cloud_items, config.cloud_points)
    return scratch_run(problem, precision, method, seed, budget, settings, device=config.device)
