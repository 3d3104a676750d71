"""The common settings of artifacts that train vision networks, and the loss-curve artifacts."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, get_args

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.core.names import IMAGE_SETS, METHODS, EngineChoice, ImageSet, MethodName
from repro.core.validation import Checked, Seed
from repro.measurement.device import Device

Angle = Literal[30, 45]
OtherCloud = Literal["modelnet40_points", "modelnet40_hdf5", "shapes40", "shrec11"]
OTHER_CLOUDS: tuple[OtherCloud, ...] = get_args(OtherCloud)
"""Other forms of ModelNet40, and stand-ins for it."""


@dataclass(frozen=True)
class TrainingRuns(Checked):
    """Seeds, device and engine of training runs."""

    seeds: tuple[Seed, ...] = (0, 1, 2, 3, 4)
    """Seeds; each is an independent training run."""
    device: Device = "cpu"
    """Device to train on: cpu, or cuda."""
    engine: EngineChoice = "torch"
    """torch for PyTorch, native for the C++ engine, auto for the C++ engine if it supports the
    run."""


@dataclass(frozen=True)
class ImageRuns(TrainingRuns):
    """Data sets, seeds and length of LeNet-5's training runs."""

    datasets: tuple[ImageSet, ...] = IMAGE_SETS
    """Data sets of images."""
    epochs: int = 100
    """Epochs (the paper's 100)."""
    image_items: int | None = None
    """Number of training images; by default all."""


@dataclass(frozen=True)
class CurveRuns(ImageRuns):
    """The loss curves to train, and the length of training."""

    methods: tuple[MethodName, ...] = METHODS
    """Methods, one curve each. Full BP estimates no gradient, so its curve is the same in int8 and
    int8_star."""


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
        profiles={
            "smoke": config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512),
            "quick": config(seeds=(0,), epochs=6),
            "paper": config(),
        },
        run=run,
        findings=lazy("repro.artifacts.shared.loss_findings:findings", slug),
        figures={figure_name: lazy("repro.artifacts.shared.losses:figure")},
        captions={
            figure_name: "Train and test loss by epoch for four methods on MNIST and Fashion-MNIST",
        },
        selector_fields=("datasets", *selected, "methods", "seeds"),
        takes_recorded=True,
    )


@dataclass(frozen=True)
class RotatedRuns(TrainingRuns):
    """Rotated images, seeds and length of LeNet-5's fine-tuning runs."""

    datasets: tuple[ImageSet, ...] = IMAGE_SETS
    """Data sets: upright for pre-training, rotated for fine-tuning."""
    angles: tuple[Angle, ...] = get_args(Angle)
    """Angles of rotation in degrees."""
    epochs: int = 50
    """Epochs of fine-tuning (the paper's 50)."""
    integer_pretraining_epochs: int = 100
    """Epochs of NITI before fine-tuning in int8 (the paper's 100)."""
    image_items: int | None = None
    """Images for pre-training; by default all."""
