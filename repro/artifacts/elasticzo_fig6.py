"""ElasticZO paper, Fig. 6: memory of PointNet in float32.

Deviations from the paper:

1. The paper draws its equations only. Beside them stand the tensors of our own steps, an
   allocator's peak, and the least that a step needs if every buffer is freed as soon as it is dead.
2. The equations do not count the input batch; the other accounts do.
3. Measured peaks are those of PyTorch on the host, with and without its oneDNN backend, of one
   thread; and those of our compiled engine.
4. The batch size and the number of points are lost from our copy of the paper; 32 clouds of 1,024
   points give its percentages.
5. The clouds are random: memory does not depend on where points lie.
"""

from dataclasses import dataclass

from repro.artifacts.shared.memory import MemorySteps, memory_figure
from repro.core.limits import CLOUD_POINTS, require_points


@dataclass(frozen=True)
class Config(MemorySteps):
    """Which steps of PointNet are shown."""

    batches: tuple[int, ...] = (32,)
    """B, clouds of a step."""
    points: int = CLOUD_POINTS
    """N, points of each cloud."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_points("points", self.points)


ARTIFACT = memory_figure(
    "elasticzo_fig6",
    "ElasticZO Fig. 6: memory of PointNet",
    __doc__,
    paper=Config(),
    smoke=Config(batches=(4,), methods=("full_zo", "cls1"), points=32),
    network="pointnet",
)
