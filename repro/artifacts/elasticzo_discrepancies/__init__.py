"""ElasticZO: causes of the discrepancies in Tables 1 and 2.

Where our accuracies differ from Tables 1 and 2, one suspected cause is changed at a time: a setting
that the paper leaves open in fine-tuning, in pre-training, in making the rotated images or in
training PointNet.

Deviations from the paper:

1. The paper has no such experiment, so no published claim is answered here.
2. Everything is evaluated on the test items, as in the tables. This is a diagnosis: it chooses no
   hyperparameter. The tables' hyperparameters were searched for on held-out items (artifact
   ``elasticzo_search``, ``repro.training.hyperparameters``).
3. A cause that brings one of our numbers to the published one need not be the paper's: others may
   do the same. Interactions between two causes are not seen, except between learning rate and batch
   size of pre-training.
4. Networks are fine-tuned on the tables' 1,024 images, rotated counter-clockwise with bilinear
   interpolation. Other images are used for evaluation only.
5. All other settings are as in the tables. In FP32, however, the engine fine-tuned the committed
   runs and PyTorch those of Table 2: with other noise, the same settings give other networks.
6. PointNet is trained for 12 epochs on 256 points of each cloud, not on 1,024. A setting whose
   effect shows only in longer training, such as the decay of the learning rate, is not varied. The
   experiment ``long_point_clouds`` repeats three of its settings for 50 epochs on 1,024 points, as
   in our Table 1; only such runs count in verdicts.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from repro.artifacts.base import Artifact, lazy
from repro.artifacts.shared.images import OTHER_CLOUDS, OtherCloud, RotatedRuns
from repro.core.validation import Points, Seed

Experiment = Literal[
    "test_images",
    "integer_tuning",
    "float_tuning",
    "pre_training",
    "integer_training",
    "point_clouds",
    "long_point_clouds",
]


@dataclass(frozen=True)
class Config(RotatedRuns):
    """The experiments to make, and the length of their runs."""

    experiments: tuple[Experiment, ...] = get_args(Experiment)
    """Settings to vary: test images, fine-tuning, FP32 pre-training, training from scratch in
    integers, training PointNet, and the latter at Table 1's length."""
    long_seeds: tuple[Seed, ...] = (0, 1, 2)
    """Seeds of the longer experiments: all except test_images and integer_tuning."""
    integer_training_epochs: int = 100
    """Epochs of training from scratch (the paper's 100)."""
    image_items: int | None = None
    """Images for pre-training and for training from scratch; by default all."""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    """Learning rates of Adam in pre-training (1e-3 in Table 2)."""
    batches: tuple[int, ...] = (32, 64, 128, 256)
    """Batch sizes of pre-training (32 in Table 2); each is combined with every learning rate."""
    cloud_datasets: tuple[Literal["modelnet40", OtherCloud], ...] = ("modelnet40",)
    """Data sets for PointNet: modelnet40, modelnet40_points, modelnet40_hdf5, shapes40, shrec11."""
    cloud_epochs: int = 12
    """Epochs of PointNet."""
    cloud_items: int = 9843
    """Maximum number of training clouds (ModelNet40 has 9,843)."""
    cloud_points: Points = 256
    """Points per cloud (the paper's 1,024)."""
    long_cloud_epochs: int = 50
    """Epochs of PointNet in long_point_clouds."""
    long_cloud_points: Points = 1024
    """Points per cloud in long_point_clouds."""


PAPER = Config()
QUICK = Config(
    seeds=(0,),
    long_seeds=(0,),
    integer_pretraining_epochs=5,
    integer_training_epochs=6,
    cloud_datasets=("shapes40",),
    cloud_epochs=4,
    cloud_items=1024,
    cloud_points=128,
    long_cloud_epochs=8,
    long_cloud_points=256,
)
SMOKE = Config(
    datasets=("mnist",),
    angles=(30,),
    seeds=(0,),
    long_seeds=(0,),
    epochs=1,
    integer_pretraining_epochs=1,
    integer_training_epochs=1,
    image_items=512,
    rates=(1e-3,),
    batches=(32, 256),
    cloud_datasets=("shapes40",),
    cloud_epochs=1,
    cloud_items=64,
    cloud_points=8,
    long_cloud_epochs=2,
    long_cloud_points=16,
)
ARTIFACT = Artifact(
    slug="elasticzo_discrepancies",
    paper="elasticzo",
    title="ElasticZO: causes of the discrepancies in Tables 1 and 2",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.elasticzo_discrepancies.run:run"),
    captions={
        "test_images": (
            "Accuracy on our rotated test images and others, minus the published accuracy"
        ),
        "integer_tuning": (
            "Accuracy after fine-tuning in INT8, with one setting changed at a time"
        ),
        "batch": "Accuracy after fine-tuning in INT8 by batch size, and the published accuracy",
        "pre_training": (
            "Accuracy before fine-tuning at 30 and at 45 degrees, by learning rate and batch size "
            "of pre-training"
        ),
        "float_tuning": (
            "Accuracy of ZO-Feat-Cls2 after fine-tuning in FP32 on Fashion-MNIST, with one setting "
            "changed at a time"
        ),
        "integer_training": (
            "Accuracy of ZO-Feat-Cls2 on MNIST in INT8*, with one setting changed at a time"
        ),
        "point_clouds": (
            "Accuracy of PointNet after 12 epochs on 256 points of each cloud, with one setting "
            "changed at a time and one seed"
        ),
    },
    selector_fields=("experiments", "datasets", "angles", "seeds", "long_seeds", "cloud_datasets"),
    aliases=dict.fromkeys(OTHER_CLOUDS, "modelnet40"),
    takes_recorded=True,
)
