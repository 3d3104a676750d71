"""Settings that the artifacts that train have in common."""

from dataclasses import dataclass, fields
from typing import Any, get_args

from repro.core.limits import require_seeds
from repro.core.names import EngineChoice
from repro.core.validation import require_choice, require_names, require_positive_int
from repro.measurement.device import Device

DATASETS = ("mnist", "fashion_mnist")


def require_training(config: Any) -> None:  # noqa: ANN401 - any configuration with these fields
    """Refuse seeds, a device, an engine, or numbers of epochs and items that cannot be run."""
    require_choice("device", config.device, get_args(Device))
    require_choice("engine", config.engine, get_args(EngineChoice))
    require_seeds(config.seeds)
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name.endswith(("epochs", "items")) and value is not None:
            require_positive_int(field.name, value)


@dataclass(frozen=True)
class ImageRuns:
    """Which sets of images LeNet-5 is trained on, how often and for how long."""

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
    engine: EngineChoice = "torch"
    """What trains: torch; native, the on-device engine, which refuses what it cannot train; auto,
    the engine where it can and PyTorch where it cannot."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("datasets", self.datasets, DATASETS)
        require_training(self)
