"""Settings that the artifacts that train have in common, and the figures of loss curves."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import get_args

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.core.limits import require_seeds
from repro.core.names import METHODS, EngineChoice, MethodName
from repro.core.validation import require_choice, require_names, require_positive_int
from repro.measurement.device import Device

DATASETS = ("mnist", "fashion_mnist")
ANGLES = (30, 45)


@dataclass(frozen=True)
class TrainingRuns:
    """How often networks are trained, where, and by what."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Independent runs of each."""
    device: Device = "cpu"
    """Where the networks are trained: cpu, or cuda."""
    engine: EngineChoice = "torch"
    """What trains: torch; native, the on-device engine, which refuses what it cannot train; auto,
    the engine where it can and PyTorch where it cannot."""

    def __post_init__(self) -> None:
        """Refuse seeds, a device, an engine, or numbers of epochs and items that cannot be run."""
        require_choice("device", self.device, get_args(Device))
        require_choice("engine", self.engine, get_args(EngineChoice))
        require_seeds(self.seeds)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith(("epochs", "items")) and value is not None:
                require_positive_int(field.name, value)


@dataclass(frozen=True)
class ImageRuns(TrainingRuns):
    """Which sets of images LeNet-5 is trained on, how often and for how long."""

    datasets: tuple[str, ...] = DATASETS
    """Sets of images."""
    epochs: int = 100
    """The paper's 100."""
    image_items: int | None = None
    """Images trained on; by default all."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("datasets", self.datasets, DATASETS)
        super().__post_init__()


@dataclass(frozen=True)
class CurveRuns(ImageRuns):
    """Which loss curves are run, and for how long."""

    methods: tuple[MethodName, ...] = METHODS
    """Curves; Full BP estimates no gradient, and is the same by both rules for its sign."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_names("methods", self.methods, METHODS)


def loss_figure(slug: str, title: str, about: str | None, config: type[CurveRuns]) -> Artifact:
    """Return the artifact that draws loss curves, a column for each data set and precision.

    Args:
        slug: its name; the figure's is what follows the paper's.
        title: one line for listings.
        about: the docstring of its module.
        config: its configuration. Without a field ``precisions`` networks train in float32.
    """
    figure_name = slug.removeprefix("elasticzo_")
    selected = tuple(field.name for field in fields(config) if field.name == "precisions")

    def run(config: CurveRuns, context: Context) -> Iterator[Result]:
        """Yield a result for each curve; runs that Table 1 has made under the same code are reused.

        Kinds of results:

        - ``run``: one training run; the point names data set, precision and method, the metrics are
          its curves and its settings.
        """
        from repro.artifacts.shared.training_runs import image_runs, results

        runs = image_runs(config, getattr(config, "precisions", ("fp32",)), config.methods)
        yield from results(runs, context, engine=config.engine)

    return Artifact(
        slug=slug,
        paper="elasticzo",
        title=title,
        about=about,
        config=config,
        profiles={
            "smoke": config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512),
            "quick": config(seeds=(0,), epochs=6),
            "paper": config(),
        },
        run=run,
        findings=lazy("repro.artifacts.shared.loss_findings:findings", slug),
        figures=lambda: {figure_name: lazy("repro.artifacts.shared.losses:figure")},
        captions={
            figure_name: "Train and test loss by epoch for four methods on MNIST and Fashion-MNIST",
        },
        selector_fields=("datasets", *selected, "methods", "seeds"),
        can_sweep=True,
    )


@dataclass(frozen=True)
class RotatedRuns(TrainingRuns):
    """Which rotated images LeNet-5 is fine-tuned on, how often and for how long."""

    datasets: tuple[str, ...] = DATASETS
    """Sets that are pre-trained on, and rotated."""
    angles: tuple[int, ...] = ANGLES
    """Degrees."""
    epochs: int = 50
    """Epochs of fine-tuning (the paper's 50)."""
    integer_pretraining_epochs: int = 100
    """Epochs of NITI before fine-tuning in int8 (the paper's 100)."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_names("datasets", self.datasets, DATASETS)
        require_names("angles", [str(a) for a in self.angles], [str(a) for a in ANGLES])
        super().__post_init__()
