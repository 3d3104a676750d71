"""Train every cell of the table.

Kinds of results:

- ``run``: one training run; the point names data set, precision and method, the metrics are its
  curves and its settings.
"""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results
from repro.artifacts.elasticzo_table1 import Config
from repro.training.cell import Cell
from repro.training.chosen import chosen
from repro.training.experiments import Length, from_scratch
from repro.training.problem import find


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each cell the table has: PointNet in float32 only, no BP in INT8*."""
    yield from results(_cells(config), context, engine=config.engine)


def _cells(config: Config) -> Iterator[Cell]:
    columns = product(config.datasets, config.precisions)
    for (dataset, precision), method, seed in product(columns, config.methods, config.seeds):
        if find(dataset).network == "pointnet" and precision != "fp32":
            continue
        if method == "full_bp" and precision == "int8s":
            continue  # nothing is estimated: it would be INT8
        yield from_scratch(
            dataset,
            precision,
            method,
            chosen(dataset, precision, method),
            seed=seed,
            images=Length(config.epochs, config.image_items),
            clouds=Length(config.cloud_epochs, config.cloud_items, config.cloud_points),
            augmentation=config.cloud_augmentation,
            device=config.device,
        )
