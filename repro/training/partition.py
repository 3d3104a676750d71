"""The layers trained by backpropagation in each row of the ElasticZO paper's tables."""

from collections.abc import Sized

from repro.core.names import MethodName
from repro.training.task import Network

PARTITIONS: dict[Network, dict[MethodName, str | None]] = {
    "lenet5": {"full_zo": None, "cls2": "fc3", "cls1": "fc2", "full_bp": "conv1"},
    "pointnet": {"full_zo": None, "cls2": "fc8", "cls1": "fc7", "full_bp": "fc1"},
}
"""The first layer trained by backpropagation; ``None`` for Full ZO."""


def partition(network: Network, method: MethodName, layers: Sized) -> str | int:
    """Return the partition point of a network with ``layers``: a name, or the number of layers."""
    first = PARTITIONS[network][method]
    return len(layers) if first is None else first
