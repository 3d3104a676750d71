"""The common settings of artifacts that train vision networks, and the loss-curve artifacts."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import get_args

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.core.names import IMAGE_SETS, METHODS, EngineChoice, MethodName
from repro.core.validation import require_choice, require_names, require_positive_int, require_seeds
from repro.measurement.device import Device

ANGLES = (30, 45)
OTHER_CLOUDS = ("modelnet40_points", "modelnet40_hdf5", "shapes40", "shrec11")
"""Other forms of ModelNet40, and stand-ins for it."""


@dataclass(frozen=True)
class TrainingRuns:
    """Seeds, device and engine of training runs."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds; each is an independent training run."""
    device: Device = "cpu"
    """Device to train on: cpu, or cuda."""
    engine: EngineChoice = "torch"
    """torch for PyTorch, native for the C++ engine, auto for the C++ engine if it supports the
    run."""

    def __post_init__(self) -> None:
        require_choice("device", self.device, get_args(Device))
        require_choice("engine", self.engine, get_args(EngineChoice))
        require_seeds(self.seeds)
        # those of subclasses, too, whose names end in what they count
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith(("epochs", "items")) and value is not None:
                for number in value if isinstance(value, tuple) else (value,):
                    require_positive_int(field.name, number)


@dataclass(frozen=True)
class ImageRuns(TrainingRuns):
    """Data sets, seeds and length of LeNet-5's training runs."""

    datasets: tuple[str, ...] = IMAGE_SETS
    """Data sets of images."""
    epochs: int = 100
    """Epochs (the paper's 100)."""
    image_items: int | None = None
    """Number of training images; by default all."""

    def __post_init__(self) -> None:
        require_names("datasets", self.datasets, IMAGE_SETS)
        super().__post_init__()


@dataclass(frozen=True)
class CurveRuns(ImageRuns):
    """The loss curves to train, and the length of training."""

    methods: tuple[MethodName, ...] = METHODS
    """Methods, one curve each. Full BP estimates no gradient, so its curve is the same in int8 and
    int8_star."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_names("methods", self.methods, METHODS)


def loss_figure(slug: str, title: str, about: str | None, config: type[CurveRuns]) -> Artifact:
    """Return the artifact that draws loss curves, a column for each data set and precision.

    Its figure is named after ``slug`` without the paper. ``about`` is the docstring of its module.
    A ``config`` without a field ``precisions`` trains in float32.
    """
    figure_name = slug.removeprefix("elasticzo_")
    selected = tuple(field.name for field in fields(config) if field.name == "precisions")

    def run(config: CurveRuns, context: Context) -> Iterator[Result]:
        """Yield a result for each curve; Table 1's runs of the same code are reused.

        Kinds of results:

        - ``run``: one training run. The point names data set, precision and method. The metrics are
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
        takes_recorded=True,
    )


@dataclass(frozen=True)
class RotatedRuns(TrainingRuns):
    """Rotated images, seeds and length of LeNet-5's fine-tuning runs."""

    datasets: tuple[str, ...] = IMAGE_SETS
    """Data sets: upright for pre-training, rotated for fine-tuning."""
    angles: tuple[int, ...] = ANGLES
    """Angles of rotation in degrees."""
    epochs: int = 50
    """Epochs of fine-tuning (the paper's 50)."""
    integer_pretraining_epochs: int = 100
    """Epochs of NITI before fine-tuning in int8 (the paper's 100)."""

    def __post_init__(self) -> None:
        require_names("datasets", self.datasets, IMAGE_SETS)
        require_names("angles", [str(a) for a in self.angles], [str(a) for a in ANGLES])
        super().__post_init__()
