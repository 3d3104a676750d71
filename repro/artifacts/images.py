"""What the artifacts have in common that train LeNet-5 on whole sets of images."""

from dataclasses import dataclass
from typing import get_args

from repro.core.limits import require_seeds
from repro.core.names import EngineChoice
from repro.core.validation import require_choice, require_names, require_positive_int
from repro.measurement.device import Device

DATASETS = ("mnist", "fashion_mnist")


@dataclass(frozen=True)
class ImageRuns:
    """Which sets are trained on, how often and for how long."""

    datasets: tuple[str, ...] = DATASETS
    """Sets of images."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Independent runs of each."""
    epochs: int = 100
    """The paper's 100."""
    image_items: int | None = None
    """Images trained on; by default all."""
    device: Device = "cpu"
    """Where the networks are trained: cpu, or cuda."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("datasets", self.datasets, DATASETS)
        require_choice("device", self.device, get_args(Device))
        require_seeds(self.seeds)
        require_positive_int("epochs", self.epochs)
        if self.image_items is not None:
            require_positive_int("image_items", self.image_items)


@dataclass(frozen=True)
class EngineRuns(ImageRuns):
    """Runs that the on-device engine can make, too."""

    engine: EngineChoice = "torch"
    """What trains: torch; native, the on-device engine, which refuses what it cannot train; auto,
    the engine where it can and PyTorch where it cannot."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_choice("engine", self.engine, get_args(EngineChoice))
