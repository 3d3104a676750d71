"""The paper's experiments as runs: training from scratch, fine-tuning on rotated images."""

from dataclasses import dataclass

from repro.core.names import Augmentation, MethodName, Precision
from repro.measurement.device import Device
from repro.training.hyperparameters import PRE_TRAINING
from repro.training.run import IntegerSettings, NetworkRun, Settings
from repro.training.task import vision_task


@dataclass(frozen=True)
class TrainingBudget:
    """How much a run trains."""

    epochs: int
    items: int | None = None
    """Items of the training split; by default all."""
    points: int | None = None
    """Points of each cloud; by default all."""


def fine_tuning(
    task: str,
    precision: Precision,
    method: MethodName,
    settings: Settings,
    *,
    seed: int,
    epochs: int,
    integer_pretraining_epochs: int,
    device: Device = "cpu",
) -> NetworkRun:
    """Return a run that pre-trains on the unrotated set and fine-tunes on a rotated one.

    Pre-training is one epoch of BP with Adam in float32, NITI's integer BP in INT8 (ElasticZO
    paper, section 5.1.2).

    Args:
        task: a rotated set, as in ``rotated_mnist_30``.
        precision: of pre-training and of fine-tuning.
        method: of fine-tuning.
        settings: of fine-tuning.
        seed: of both.
        epochs: of fine-tuning (the paper's 50).
        integer_pretraining_epochs: of NITI (the paper's 100).
        device: where both run.
    """
    unrotated = vision_task(task).pixels_of
    assert unrotated is not None  # noqa: S101 - every set of images has one
    start = NetworkRun(
        task=unrotated,
        precision="fp32" if precision == "fp32" else "int8",
        method="full_bp",
        settings=PRE_TRAINING if precision == "fp32" else IntegerSettings(),
        epochs=1 if precision == "fp32" else integer_pretraining_epochs,
        seed=seed,
        device=device,
    )
    return NetworkRun(task, precision, method, settings, epochs, seed, device=device, start=start)


def from_scratch(
    task: str,
    precision: Precision,
    method: MethodName,
    settings: Settings,
    *,
    seed: int,
    images: TrainingBudget,
    clouds: TrainingBudget,
    augmentation: Augmentation = "none",
    device: Device = "cpu",
) -> NetworkRun:
    """Return the run that trains a network from random weights.

    Args:
        task: any unrotated set.
        precision: of training.
        method: of training.
        settings: of training.
        seed: of the run.
        images: how much, if it is a set of images ...
        clouds: ... and if it is one of clouds.
        augmentation: of clouds; images are not augmented.
        device: where it runs.
    """
    is_clouds = vision_task(task).network == "pointnet"
    budget = clouds if is_clouds else images
    return NetworkRun(
        task,
        precision,
        method,
        settings,
        budget.epochs,
        seed,
        train_items=budget.items,
        points=budget.points,
        augmentation=augmentation if is_clouds else "none",
        device=device,
    )
