"""Account for steps of LeNet-5 in float32; ``repro.artifacts.memory_run`` names the results."""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.memory_run import account
from repro.artifacts.memory_steps import MemorySteps
from repro.memory.network_step import NetworkStep


def run(config: MemorySteps, context: Context) -> Iterator[Result]:
    """Yield every account of every step."""
    steps = [
        NetworkStep("lenet5", "fp32", method, batch)
        for batch, method in product(config.batches, config.methods)
    ]
    yield from account("elasticzo_fig4", steps, config.threads, context)
