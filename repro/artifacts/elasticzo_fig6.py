"""ElasticZO paper, Fig. 6: memory of PointNet in float32.

Deviations from the paper:

1. The paper draws its equations only. We add the tensors of our own steps, the allocator's peak,
   and the minimum that a step needs if every buffer is freed after its last use.
2. The equations do not count the input batch; the other estimates do.
3. Peaks are measured in PyTorch on the host with one thread, with and without its oneDNN backend,
   and on our compiled engine.
4. The batch size and the number of points are lost from our copy of the paper; with 32 clouds of
   1,024 points the equations give its percentages.
5. The clouds are random: memory does not depend on where points lie.
"""

from dataclasses import dataclass

from repro.artifacts.shared.memory import MemorySteps, memory_figure
from repro.core.validation import CLOUD_POINTS, Points


@dataclass(frozen=True)
class Config(MemorySteps):
    """The training steps of PointNet to show."""

    batches: tuple[int, ...] = (32,)
    """B, clouds per step."""
    points: Points = CLOUD_POINTS
    """N, points per cloud."""


ARTIFACT = memory_figure(
    "elasticzo_fig6",
    "ElasticZO Fig. 6: memory of PointNet",
    __doc__,
    paper=Config(),
    smoke=Config(batches=(4,), methods=("full_zo", "cls1"), points=32),
    network="pointnet",
)
