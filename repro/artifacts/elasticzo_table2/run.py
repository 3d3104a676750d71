"""Pre-train, then fine-tune, for every cell of the table.

Kinds of results:

- ``run``: one fine-tuning run; the point names data set, angle, precision and method, the metrics
  are its curves, which begin with the pre-trained network, and its whole setting.
"""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results
from repro.artifacts.elasticzo_table2 import Config
from repro.training.chosen import chosen
from repro.training.experiments import fine_tuning


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each cell of the table."""
    rows = product(config.datasets, config.angles, config.precisions, config.methods, config.seeds)
    cells = []
    for dataset, angle, precision, method, seed in rows:
        problem = f"rotated_{dataset}_{angle}"
        cells.append(
            fine_tuning(
                problem,
                precision,
                method,
                chosen(problem, precision, method),
                seed=seed,
                epochs=config.epochs,
                integer_pretraining_epochs=config.integer_pretraining_epochs,
                device=config.device,
            )
        )
    yield from results(cells, context)
