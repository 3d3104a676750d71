"""The search for the hyperparameters of the ElasticZO paper, which our copy of its text has lost.

Every combination of a grid is trained and evaluated on items held out of the training split. No
test item has a part in the choice. The tables and figures use the best ones
(``repro.training.hyperparameters``).

Deviations from the paper:

1. The paper tunes its learning rates and r_max over ranges that are lost from our copy, as are
   epsilon, g_clip and the batch sizes; on which items it does not say. The grids are ours. Batch
   sizes are searched for fine-tuning in integers only, from float32's on; the others (32 in
   float32, 256 in integers) were set.
2. Epsilon is searched along a line through the best point of the grid of learning rates and clips,
   not in one grid with them.
3. A short run chooses for a long one, but on rotated sets and, in the profile `paper`, in integers:
   what wins after a few epochs need not win after 100. In float32 these are 4 epochs of one seed,
   of Full ZO on Fashion-MNIST 20 epochs of three: it was searched for again when, as chosen by 4,
   five seeds of 100 ended 3.1 points below the paper; chosen by 20 they end as far below. The rows
   that held were not searched for again.
4. The two angles of a rotated set share their hyperparameters, chosen by their mean accuracy.
5. The held-out items are a tenth of the training split (by class), not trained on here; the runs of
   the tables train on the whole split. For the rotated sets they are 1,024 other images of the
   unrotated training split. Upright versions of them were among the images of pre-training, as
   those of the images fine-tuned on are.
6. One seed, but three where Full ZO was searched for again and of most combinations of fine-tuning
   in integers: neighbours in the grid are often as good, and of equals the first is taken.
7. In the profile `quick` fine-tuning in integers starts from a shorter pre-training than the
   tables'.
8. In integers the choices are those of the profile `paper`: 100 epochs, and on the rotated sets 50
   after 100 of pre-training. On the stand-ins for ModelNet40 they are those of 60 epochs of SHREC11
   at 256 points, where 48 meshes are held out and Full ZO stays near chance, so that its choice
   there means little. On ModelNet40 itself they are those of 12 epochs at 256 points, with one seed
   and fewer combinations; these runs are of no profile.
"""

from dataclasses import dataclass

from repro.artifacts.base import Artifact, lazy
from repro.artifacts.shared.images import TrainingRuns
from repro.core.errors import UsageError
from repro.core.limits import require_points
from repro.core.names import METHODS, MethodName, Precision
from repro.core.validation import (
    require_distinct,
    require_names,
    require_positive,
    require_positive_int,
)
from repro.integer.limits import check_r_max

PROBLEMS = (
    "mnist",
    "fashion_mnist",
    "rotated_mnist_30",
    "rotated_mnist_45",
    "rotated_fashion_mnist_30",
    "rotated_fashion_mnist_45",
    "shapes40",
)
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
_CLOUDS = ("modelnet40", "modelnet40_points", "modelnet40_hdf5", "shrec11")


@dataclass(frozen=True)
class Config(TrainingRuns):
    """The grid and the length of its runs."""

    problems: tuple[str, ...] = PROBLEMS
    """Problems to search for; those in int8 are images only."""
    precisions: tuple[Precision, ...] = PRECISIONS
    """fp32, int8 (INT8* uses what INT8 does)."""
    methods: tuple[MethodName, ...] = METHODS
    """Rows of the tables."""
    seeds: tuple[int, ...] = (0,)
    epochs: int = 4
    """Epochs of a run on a whole set of images in float32 ..."""
    integer_epochs: int = 4
    """... and in integers, to which the schedule is stretched."""
    fine_tuning_epochs: int = 50
    """Epochs of a run on a rotated set (the paper's 50), after pre-training on the upright one."""
    integer_pretraining_epochs: int = 3
    """Epochs of NITI before fine-tuning in integers (the paper's 100)."""
    cloud_epochs: int = 5
    """Epochs of a run on a set of clouds."""
    cloud_items: int = 1024
    """Clouds trained on, at most."""
    cloud_points: int = 128
    """Points of each cloud."""
    learning_rates: tuple[float, ...] = (1.6e-2, 3.2e-2, 6.4e-2)
    """Of the methods with a zeroth-order part, in fp32."""
    clips: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1)
    """g_clip."""
    eps: float = 1e-2
    """Scale of the perturbation in fp32, for the grid of learning rates and clips ..."""
    other_eps: tuple[float, ...] = (1e-3, 3e-3, 3e-2)
    """... and others to try at the best point of each grid."""
    bp_learning_rates: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    """Of Full BP in fp32."""
    r_maxes: tuple[int, ...] = (7, 15, 31)
    """Largest magnitude of the integer perturbation; Full BP has none."""
    integer_tuning_batches: tuple[int, ...] = (32, 256)
    """Batch sizes of fine-tuning in integers."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("problems", self.problems, (*PROBLEMS, *_CLOUDS))
        require_names("precisions", self.precisions, PRECISIONS)
        require_names("methods", self.methods, METHODS)
        super().__post_init__()
        for name in ("learning_rates", "clips", "other_eps", "bp_learning_rates"):
            require_distinct(name, getattr(self, name))
            for value in getattr(self, name):
                require_positive(name, value)
        require_positive("eps", self.eps)
        if self.eps in self.other_eps:
            msg = f"eps {self.eps:g} is among other_eps: give values other than that of the grid"
            raise UsageError(msg)
        require_distinct("r_maxes", self.r_maxes)
        for r_max in self.r_maxes:
            check_r_max(r_max)
        require_distinct("integer_tuning_batches", self.integer_tuning_batches)
        for batch in self.integer_tuning_batches:
            require_positive_int("batch size B", batch)
        require_points("cloud_points", self.cloud_points)


QUICK = Config()
SMOKE = Config(
    problems=("rotated_mnist_30",),
    methods=("full_zo", "full_bp"),
    fine_tuning_epochs=2,
    integer_pretraining_epochs=1,
    learning_rates=(2e-3, 4e-3),
    clips=(0.3,),
    other_eps=(3e-2,),
    bp_learning_rates=(0.05,),
    r_maxes=(15,),
    integer_tuning_batches=(32,),
)
PAPER = Config(
    seeds=(0, 1, 2),
    epochs=20,
    integer_epochs=100,
    r_maxes=(7, 15, 31, 63),
    integer_tuning_batches=(32, 64, 128, 256),
    integer_pretraining_epochs=100,
    cloud_epochs=60,
    cloud_items=9843,
    cloud_points=256,
)
CAPTIONS = {
    "grid": (
        "Held-out accuracy by learning rate, perturbation range or batch size, one panel for each "
        "set and precision"
    ),
    "epsilon": "Held-out accuracy by epsilon, one panel for each set",
}


ARTIFACT = Artifact(
    slug="elasticzo_search",
    paper="elasticzo",
    title="ElasticZO: hyperparameters, searched on held-out items",
    about=__doc__,
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.elasticzo_search.run:run"),
    figures=lazy("repro.artifacts.elasticzo_search.figures:figures"),
    captions=CAPTIONS,
    selector_fields=("problems", "precisions", "methods", "seeds"),
    reads_custom=True,
    aliases=dict.fromkeys(_CLOUDS, "shapes40"),
    can_sweep=True,
)
