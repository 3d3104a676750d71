"""The training steps in the ElasticZO memory figures: one definition for all estimates."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repro.core.names import MethodName, Network, NumberFormat
from repro.memory.layers import LayerSize, layer_table
from repro.models.networks import NETWORKS
from repro.training.build import build_learner
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.loop import NetworkLearner
from repro.training.run import NetworkRun
from repro.training.task import VISION_TASKS, partition

_SIDE, _GREYS = 28, 256  # of an MNIST image: side and number of grey levels
_INT8_RANGE = (-14, 91)  # of MNIST's grey levels at their common exponent


@dataclass(frozen=True)
class NetworkStep:
    """One training step, the same as in the training artifacts; PointNet's is in float32."""

    network: Network
    precision: NumberFormat
    method: MethodName
    batch: int
    """B, samples."""
    points: int | None = None
    """N, points of each cloud; for PointNet only."""

    def as_dict(self) -> dict[str, Any]:
        """Return the step as plain values, for records and cache keys."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def sample(self) -> tuple[int, ...]:
        """Shape of one input sample of the first layer."""
        return (1, _SIDE, _SIDE) if self.points is None else (self.points, 3)

    @property
    def task(self) -> str:
        """The first task of the network: the one in the paper's memory figures."""
        return next(name for name, task in VISION_TASKS.items() if task.network == self.network)

    def model(self) -> nn.Sequential:
        """Return the network with random weights; an integer network has no biases."""
        without = {"bias": False} if self.precision == "int8" else {}
        return NETWORKS[self.network](classes=VISION_TASKS[self.task].classes, **without)

    def layers(self) -> tuple[LayerSize, ...]:
        """Return the network's layers."""
        return layer_table(self.model(), self.sample)

    def partition(self, layers: tuple[LayerSize, ...]) -> str | int:
        """Return the first layer trained by backpropagation, or C if there is none."""
        return partition(self.network, self.method, layers)

    def learner(self) -> NetworkLearner:
        """Return the learner, built as in the training artifacts."""
        settings = tuned_hyperparameters(self.task, self.precision, self.method)
        run = NetworkRun(self.task, self.precision, self.method, settings, 1, 0, points=self.points)
        learner = build_learner(run)
        learner.start_epoch(0)
        return learner

    def make_batch(self) -> tuple[Tensor, Tensor]:
        """Return random samples in the learner's form, and labels, int64 [B].

        Samples are uint8 [B, 28, 28], which the learner converts to float32,
        int8 [B, 1, 28, 28], or float32 [B, N, 3].
        """
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(0, 10, (self.batch,), generator=generator)
        if self.points is not None:
            return torch.rand(self.batch, self.points, 3, generator=generator), labels
        if self.precision == "fp32":
            low, high, dtype, shape = 0, _GREYS, torch.uint8, self.sample[1:]
        else:
            low, high, dtype, shape = *_INT8_RANGE, torch.int8, self.sample
        images = torch.randint(low, high, (self.batch, *shape), generator=generator, dtype=dtype)
        return images, labels
