"""Train in INT8* and count the signs.

The weights are those of Table 1's runs; only runs that are watched have counts, so they are trained
for this artifact.

Kinds of results:

- ``run``: one training run; the point names data set, precision and method, the metrics are its
  curves, its settings and, as ``signs``, the counts of each epoch
  (``repro.training.sign_counts.COUNTS``).
"""

from collections.abc import Iterator
from dataclasses import replace

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import image_cells, results
from repro.artifacts.elasticzo_int8_sign import Config


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each data set, method and seed."""
    cells = image_cells(config, ("int8s",), config.methods)
    watched = (replace(cell, signs=True) for cell in cells)
    yield from results(watched, context, engine=config.engine)
