"""Train both arms; the scheduled one is Table 1's run, not repeated under the same code.

Kinds of results:

- ``run``: one training run; the point names data set, precision, method and ``p_zero``, null for
  the schedule; the metrics are its curves and its settings.
"""

from collections.abc import Iterator
from dataclasses import replace

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import image_cells, results
from repro.artifacts.elasticzo_sparsity import Config
from repro.training.cell import Cell, IntegerSettings


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each data set, arm and seed."""
    scheduled = list(image_cells(config, ("int8",), ("full_zo",)))
    fixed = [_with_sparsity(cell, config.p_zero) for cell in scheduled]
    yield from results([*fixed, *scheduled], context, extra=("p_zero",), engine=config.engine)


def _with_sparsity(cell: Cell, p_zero: float) -> Cell:
    assert isinstance(cell.settings, IntegerSettings)  # noqa: S101 - by the precision
    return replace(cell, settings=replace(cell.settings, p_zero=p_zero))
