"""How much memory a run takes, so that no more runs are trained at a time than there is room for.

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
from repro.training.run import NetworkRun
from repro.training.task import Network, vision_task

_LIBRARIES = 640 * MIB
"""Resident memory of a process that has imported PyTorch and done a step."""
_COPIES_OF_FLOATS = 3
"""A set of clouds or grey levels: the file, mapped; the items; a copy on the way to them."""
_COPIES_OF_INTEGERS = 16
"""Integers come from a table, whose index is for a while 4 and then 8 bytes a pixel."""


def run_bytes(run: NetworkRun) -> int:
    """Return the most memory that the process of ``run`` will have taken."""
    task = vision_task(run.task)
    sets = {task.dataset, task.pixels_of or task.dataset}
    copies = _COPIES_OF_FLOATS if run.precision == "fp32" else _COPIES_OF_INTEGERS
    items = copies * sum(load_set(name).size for name in sets)
    clouds = task.network == "pointnet"
    points = (run.points or CLOUD_POINTS) if clouds else None
    precision: Format = "fp32" if run.precision == "fp32" else "int8"
    step = _step_bytes(task.network, precision, run.method, run.settings.batch, points)
    return _LIBRARIES + items + step


@cache
def _step_bytes(
    network: Network, precision: Format, method: MethodName, batch: int, points: int | None
) -> int:
    step = NetworkStep(network, precision, method, batch, points)
    layers = step.layers()
    return training_bytes(layers, step.partition(layers), batch, precision=precision).total
