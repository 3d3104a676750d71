"""ElasticZO paper, Fig. 2: train and test loss of LeNet-5 in float32, by epoch.

Deviations from the paper:

1. Learning rates and g_clip are not in the paper; they were searched for on held-out items
   (artifact ``elasticzo_search``). Nor are the batch size and epsilon, which were set, not
   searched: 32 and 1e-2.
2. The train loss is evaluated at the end of each epoch, at the weights themselves, on the first
   10,000 training images. The paper does not say how its train loss is taken; a mean over the
   epoch's minibatches would mix weights, and for the zeroth-order methods perturbed ones.
3. The curves begin before the first epoch.
"""

from dataclasses import dataclass
from typing import get_args

from repro.artifacts.base import Artifact
from repro.core.limits import require_seeds
from repro.core.names import METHODS, MethodName
from repro.core.validation import (
    require_choice,
    require_names,
    require_positive_int,
)
from repro.measurement.device import Device

DATASETS = ("mnist", "fashion_mnist")


@dataclass(frozen=True)
class Config:
    """Which curves are run, and for how long."""

    datasets: tuple[str, ...] = DATASETS
    """Columns of the figure."""
    methods: tuple[MethodName, ...] = METHODS
    """Curves."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Independent runs of each."""
    epochs: int = 100
    """The paper's 100."""
    image_items: int = 60_000
    """Images trained on, at most (all of them)."""
    device: Device = "cpu"
    """Where the networks are trained: cpu, or cuda."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("datasets", self.datasets, DATASETS)
        require_names("methods", self.methods, METHODS)
        require_choice("device", self.device, get_args(Device))
        require_seeds(self.seeds)
        require_positive_int("epochs", self.epochs)
        require_positive_int("image_items", self.image_items)


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
)
