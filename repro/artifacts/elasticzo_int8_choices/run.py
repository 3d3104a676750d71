"""Train every method by the defaults, and by each other answer that can matter to it.

Runs by the defaults, and in INT8*, are those of Table 1, not repeated under the same code.

Kinds of results:

- ``run``: one training run; the point names data set, precision, method and the settings of
  ``DEFAULTS``, a null sign being that of the precision; the metrics are its curves, its settings
  and, as ``restores``, how many weights of how many were not given back in each epoch.
"""

from collections.abc import Iterator
from dataclasses import replace

from repro.artifacts.base import Context, Result
from repro.artifacts.cells import image_cells, results
from repro.artifacts.elasticzo_int8_choices import Config
from repro.artifacts.elasticzo_int8_choices.choices import CHOICES, DEFAULTS, Changes
from repro.core.names import METHODS
from repro.training.cell import Cell, IntegerSettings


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each data set, method, answer and seed."""
    settings = [name for name in DEFAULTS if name != "precision"]
    yield from results(_cells(config), context, extra=settings, engine=config.engine)


def _cells(config: Config) -> Iterator[Cell]:
    for cell in image_cells(config, ("int8",), METHODS):
        yield cell
        for choice in CHOICES:
            if cell.method in choice.methods:
                yield from (_changed(cell, changes) for changes in choice.others.values())


def _changed(cell: Cell, changes: Changes) -> Cell:
    assert isinstance(cell.settings, IntegerSettings)  # noqa: S101 - by the precision
    settings = {name: value for name, value in changes.items() if name != "precision"}
    return replace(
        cell,
        precision=changes.get("precision", cell.precision),
        settings=replace(cell.settings, **settings),
    )
