"""Account for steps of LeNet-5 in integers; ``repro.artifacts.memory_run`` names the results."""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.memory_run import account
from repro.artifacts.memory_steps import MemorySteps
from repro.memory.elasticzo import Format
from repro.memory.network_step import NetworkStep

_PRECISIONS: tuple[Format, ...] = ("int8", "fp32")


def run(config: MemorySteps, context: Context) -> Iterator[Result]:
    """Yield every account of every step in integers, and of the same in float32."""
    steps = [
        NetworkStep("lenet5", precision, method, batch)
        for precision, batch, method in product(_PRECISIONS, config.batches, config.methods)
    ]
    yield from account("elasticzo_fig5", steps, config.threads, context)
