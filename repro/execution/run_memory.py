"""Estimate the memory of a run, so that concurrent runs fit in the memory of the machine.

The estimate is an upper bound: interpreter and libraries, the data set while it is read, and a
training step that frees nothing before its end, as in the paper's formula. Measured peaks of a
process are 1 to 1.7 times smaller (docs/sweep.md).
"""

from functools import cache

from repro.core.names import MethodName, Network, NumberFormat
from repro.core.units import MIB
from repro.core.validation import CLOUD_POINTS
from repro.data.catalog import load_set
from repro.memory.elasticzo import training_bytes
from repro.memory.network_step import NetworkStep
from repro.training.run import NetworkRun
from repro.training.task import vision_task

_LIBRARIES = 640 * MIB
"""Resident memory of a process after importing PyTorch and one training step."""
_COPIES_OF_FLOATS = 3
"""Copies of clouds or grey levels: the mapped file, the items, and one temporary copy."""
_COPIES_OF_INTEGERS = 16
"""Copies of integer images: they are looked up in a table, with an index of 4 and briefly 8 bytes
per pixel."""


def run_bytes(run: NetworkRun) -> int:
    """Return an upper bound of the memory of the process of ``run``, in bytes."""
    task = vision_task(run.task)
    # the tuning images of a rotated set are read from its base set
    sets = {task.dataset, task.pixels_of or task.dataset}
    copies = _COPIES_OF_FLOATS if run.precision == "fp32" else _COPIES_OF_INTEGERS
    items = copies * sum(load_set(name).size for name in sets)
    points = (run.points or CLOUD_POINTS) if task.of_clouds else None
    precision: NumberFormat = "fp32" if run.precision == "fp32" else "int8"
    step = _step_bytes(task.network, precision, run.method, run.settings.batch, points)
    return _LIBRARIES + items + step


@cache
def _step_bytes(
    network: Network, precision: NumberFormat, method: MethodName, batch: int, points: int | None
) -> int:
    step = NetworkStep(network, precision, method, batch, points)
    layers = step.layers()
    return training_bytes(layers, step.partition(layers), batch, precision=precision).total
