"""The ElasticZO paper's experiments as runs: training from scratch, and fine-tuning."""

from dataclasses import dataclass

from repro.core.names import Augmentation, MethodName, Precision
from repro.measurement.device import Device
from repro.training.hyperparameters import PRE_TRAINING
from repro.training.run import IntegerSettings, NetworkRun, Settings
from repro.training.task import vision_task


@dataclass(frozen=True)
class TrainingBudget:
    """The amount of training in a run."""

    epochs: int
    items: int | None = None
    """Number of items of the training split; by default all."""
    points: int | None = None
    """Number of points of each cloud; by default all."""


def fine_tuning(
    task: str,
    precision: Precision,
    method: MethodName,
    settings: Settings,
    *,
    seed: int,
    epochs: int,
    integer_pretraining_epochs: int,
    pretraining_items: int | None = None,
    device: Device = "cpu",
) -> NetworkRun:
    """Return a run that fine-tunes on a rotated set after pre-training on the unrotated one.

    Pre-training is one epoch of BP with Adam in float32, and NITI's integer BP in INT8 (ElasticZO
    paper, section 5.1.2).

    Args:
        task: a rotated set, as in ``rotated_mnist_30``.
        precision: precision of pre-training and fine-tuning.
        method: method of fine-tuning.
        settings: hyperparameters of fine-tuning.
        seed: seed of both runs.
        epochs: epochs of fine-tuning (50 in the paper).
        integer_pretraining_epochs: epochs of NITI (100 in the paper).
        pretraining_items: images for pre-training; by default all.
        device: device of both runs.
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
        train_items=pretraining_items,
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
    """Return a run that trains a network from random weights.

    Args:
        task: any unrotated set.
        precision: precision of training.
        method: training method.
        settings: hyperparameters of training.
        seed: seed of the run.
        images: amount of training for a set of images.
        clouds: amount of training for a set of point clouds.
        augmentation: augmentation of clouds; images are not augmented.
        device: device of the run.
    """
    of_clouds = vision_task(task).of_clouds
    budget = clouds if of_clouds else images
    return NetworkRun(
        task,
        precision,
        method,
        settings,
        budget.epochs,
        seed,
        train_items=budget.items,
        points=budget.points,
        augmentation=augmentation if of_clouds else "none",
        device=device,
    )
