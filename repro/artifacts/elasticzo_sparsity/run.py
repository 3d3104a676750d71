"""Train both arms; the scheduled one is Table 1's run, not repeated under the same code.

Kinds of results:

- ``run``: one training run; the point names data set, precision, method and ``p_zero``, null for
  the schedule; the metrics are its curves and its settings.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import results
from repro.artifacts.elasticzo_sparsity import Config
from repro.training.cell import IntegerSettings
from repro.training.chosen import chosen
from repro.training.experiments import Length, from_scratch


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each data set, arm and seed."""
    length = Length(config.epochs, config.image_items)
    cells = []
    for dataset, p_zero, seed in product(config.datasets, (config.p_zero, None), config.seeds):
        settings = chosen(dataset, "int8", "full_zo")
        assert isinstance(settings, IntegerSettings)  # noqa: S101 - by the precision
        cells.append(
            from_scratch(
                dataset,
                "int8",
                "full_zo",
                replace(settings, p_zero=p_zero),
                seed=seed,
                images=length,
                clouds=length,
                device=config.device,
            )
        )
    yield from results(cells, context, extra=("p_zero",))
