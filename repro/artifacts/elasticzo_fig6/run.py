"""Account for steps of PointNet; ``repro.artifacts.memory_run`` names the results."""

from collections.abc import Iterator
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_fig6 import Config
from repro.artifacts.memory_run import account
from repro.memory.network_step import NetworkStep


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every account of every step."""
    steps = [
        NetworkStep("pointnet", "fp32", method, batch, config.points)
        for batch, method in product(config.batches, config.methods)
    ]
    yield from account("elasticzo_fig6", steps, config.threads, context)
