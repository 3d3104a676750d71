"""The networks of the ElasticZO paper by name."""

from collections.abc import Callable, Mapping

from torch import nn

from repro.core.names import Network
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet

NETWORKS: Mapping[Network, Callable[..., nn.Sequential]] = {"lenet5": lenet5, "pointnet": pointnet}
"""Each makes its network with random weights from the number of ``classes``; those of images also
without ``bias``, for training in integers."""
