"""Train every curve of the figure; runs that Table 1 has made under the same code are not repeated.

Kinds of results:

- ``run``: one training run; the point names data set, precision and method, the metrics are its
  curves and its settings.
"""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results
from repro.artifacts.elasticzo_fig3 import Config
from repro.training.chosen import chosen
from repro.training.experiments import Length, from_scratch


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each curve."""
    length = Length(config.epochs, config.image_items)
    cells = [
        from_scratch(
            dataset,
            precision,
            method,
            chosen(dataset, precision, method),
            seed=seed,
            images=length,
            clouds=length,
            device=config.device,
        )
        for dataset, precision, method, seed in product(
            config.datasets, config.precisions, config.methods, config.seeds
        )
        if (precision, method) != ("int8s", "full_bp")
    ]
    yield from results(cells, context)
