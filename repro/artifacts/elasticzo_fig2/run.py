"""Train every curve of the figure; runs that Table 1 has made under the same code are not repeated.

Kinds of results:

- ``run``: one training run; the point names data set, precision and method, the metrics are its
  curves and its settings.
"""

from collections.abc import Iterator

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import image_cells, results
from repro.artifacts.elasticzo_fig2 import Config


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each curve."""
    cells = image_cells(config, ("fp32",), config.methods)
    yield from results(cells, context, engine=config.engine)
