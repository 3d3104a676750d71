"""ElasticZO paper, Fig. 2: train and test loss of LeNet-5 in float32, by epoch.

Deviations from the paper:

1. Learning rates, g_clip and epsilon are lost from our copy of the paper; they were searched for on
   held-out items (artifact ``elasticzo_search``). So is the batch size, which was set, not
   searched: 32.
2. The train loss is evaluated at the end of each epoch, at the weights themselves, on the first
   10,000 training images. The paper does not say how its train loss is taken; a mean over the
   epoch's minibatches would mix weights, and for the zeroth-order methods perturbed ones.
3. The curves begin before the first epoch.
"""

from dataclasses import dataclass

from repro.artifacts.base import Artifact
from repro.artifacts.images import EngineRuns
from repro.core.names import METHODS, MethodName
from repro.core.validation import require_names


@dataclass(frozen=True)
class Config(EngineRuns):
    """Which curves are run, and for how long."""

    methods: tuple[MethodName, ...] = METHODS
    """Curves."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_names("methods", self.methods, METHODS)


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=6)
SMOKE = Config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)

ARTIFACT = Artifact(
    slug="elasticzo_fig2",
    paper="elasticzo",
    title="ElasticZO Fig. 2: train and test loss of LeNet-5 in float32",
    claims=(),
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    scope=("datasets", "methods", "seeds"),
    trains_cells=True,
)
