"""Which layers each row of the paper's tables trains by backpropagation."""

from torch import nn

from repro.core.names import MethodName
from repro.training.problem import Network

TAILS: dict[Network, dict[MethodName, str | None]] = {
    "lenet5": {"full_zo": None, "cls2": "fc3", "cls1": "fc2", "full_bp": "conv1"},
    "pointnet": {"full_zo": None, "cls2": "fc8", "cls1": "fc7", "full_bp": "fc1"},
}
"""The first layer trained by backpropagation; none for Full ZO."""


def partition(network: Network, method: MethodName, model: nn.Module) -> str | int:
    """Return the partition point of ``model``: a layer's name, or the number of all layers."""
    tail = TAILS[network][method]
    return len(list(model.children())) if tail is None else tail
