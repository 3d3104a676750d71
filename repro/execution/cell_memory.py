"""How much memory a cell takes, so that no more cells run at a time than there is memory for.

An estimate from above: interpreter and libraries, the data set as it is read, and a training step
in which nothing is freed before its end, as the papers' formula has it. Measured peaks of a process
are between 1 and 1.7 times smaller (docs/sweep.md).
"""

from functools import cache

from repro.core.limits import CLOUD_POINTS
from repro.core.names import MethodName
from repro.core.units import MIB
from repro.data.catalog import load_set
from repro.memory.elasticzo import Format, training_bytes
from repro.memory.network_step import NetworkStep
from repro.training.cell import Cell
from repro.training.problem import Network, find

_LIBRARIES = 640 * MIB
"""Resident memory of a process that has imported PyTorch and done a step."""
_COPIES_OF_FLOATS = 3
"""A set of clouds or grey levels: the file, mapped; the items; a copy on the way to them."""
_COPIES_OF_INTEGERS = 16
"""Integers come from a table, whose index is for a while 4 and then 8 bytes a pixel."""


def cell_bytes(cell: Cell) -> int:
    """Return the most memory that the process of ``cell`` will have taken."""
    problem = find(cell.problem)
    sets = {problem.dataset, problem.pixels_of or problem.dataset}
    copies = _COPIES_OF_FLOATS if cell.precision == "fp32" else _COPIES_OF_INTEGERS
    items = copies * sum(load_set(name).size for name in sets)
    clouds = problem.network == "pointnet"
    points = (cell.points or CLOUD_POINTS) if clouds else None
    precision: Format = "fp32" if cell.precision == "fp32" else "int8"
    step = _step_bytes(problem.network, precision, cell.method, cell.settings.batch, points)
    return _LIBRARIES + items + step


@cache
def _step_bytes(
    network: Network, precision: Format, method: MethodName, batch: int, points: int | None
) -> int:
    step = NetworkStep(network, precision, method, batch, points)
    layers = step.layers()
    return training_bytes(layers, step.partition(layers), batch, precision=precision).total
