"""The classification tasks of the ElasticZO paper: data sets, their networks, their partitions."""

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from typing import Literal

from repro.core.names import MethodName, Network
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.arrays import Array
from repro.data.images.rotated import ANGLES, tuning_images
from repro.data.splits import holdout, sample

Evaluation = Literal["test", "validation"]
"""Items for evaluation: the test split, or items held out of the training split for tuning."""


@dataclass(frozen=True)
class VisionTask:
    """A data set of images or point clouds, and its network."""

    dataset: str
    """Name in the catalogue."""
    network: Network
    classes: int
    angle: int | None = None
    """Angle in degrees, for rotated sets."""
    pixels_of: str | None = None
    """The set whose mean and standard deviation normalise the images; ``None`` for clouds."""
    vertical: int | None = None
    """For clouds: the vertical coordinate, if the shapes have an upward direction."""
    recorded_as: str | None = None
    """Name of the data set in records, if other than that of the files: the paper's set, if
    ``dataset`` holds the same shapes in another form; a name of its own for another network."""

    @property
    def of_clouds(self) -> bool:
        """Whether its items are point clouds, not images."""
        return self.pixels_of is None


def _clouds(
    dataset: str, classes: int, vertical: int | None, recorded_as: str | None = None
) -> VisionTask:
    return VisionTask(dataset, "pointnet", classes, vertical=vertical, recorded_as=recorded_as)


def _images(base: str) -> dict[str, VisionTask]:
    at_angles = {
        f"rotated_{base}_{angle}": VisionTask(f"rotated_{base}", "lenet5", 10, angle, base)
        for angle in ANGLES
    }
    return {base: VisionTask(base, "lenet5", 10, pixels_of=base), **at_angles}


VISION_TASKS: Mapping[str, VisionTask] = {
    **_images("mnist"),
    **_images("fashion_mnist"),
    "modelnet40": _clouds("modelnet40", 40, vertical=2),
    "modelnet40_points": _clouds("modelnet40_points", 40, vertical=2, recorded_as="modelnet40"),
    "modelnet40_hdf5": _clouds("modelnet40_hdf5", 40, vertical=1),
    "shrec11": _clouds("shrec11", 30, vertical=None),
    "shapes40": _clouds("shapes40", 40, vertical=2),
}
"""The tasks by name; a rotated set has one for each angle."""
PARTITIONS: dict[Network, dict[MethodName, str | None]] = {
    "lenet5": {"full_zo": None, "cls2": "fc3", "cls1": "fc2", "full_bp": "conv1"},
    "pointnet": {"full_zo": None, "cls2": "fc8", "cls1": "fc7", "full_bp": "fc1"},
}
"""The first layer trained by backpropagation; ``None`` for Full ZO."""


@dataclass(frozen=True)
class Arrays:
    """The items of a task, in the form of its data set."""

    train_inputs: Array
    """Images, uint8 [N, 28, 28], or clouds, float32 [N, points, 3]."""
    train_labels: Array
    eval_inputs: Array
    eval_labels: Array


def vision_task(name: str) -> VisionTask:
    """Return the task of that name.

    Raises:
        UsageError: there is none.
    """
    require_choice("task", name, VISION_TASKS)
    return VISION_TASKS[name]


def partition(network: Network, method: MethodName, layers: Sized) -> str | int:
    """Return the partition point of a network with ``layers``: a name, or the number of layers."""
    first = PARTITIONS[network][method]
    return len(layers) if first is None else first


def load(
    name: str,
    evaluation: Evaluation = "test",
    *,
    train_items: int | None = None,
    points: int | None = None,
) -> Arrays:
    """Return the items of a task, fetching the data set if it is not in the cache.

    Args:
        name: one of ``VISION_TASKS``.
        evaluation: the items for evaluation. ``validation`` holds out a tenth of the training
            split, stratified by class and always the same. For a rotated set it takes other images
            of the base set's training split instead.
        train_items: most items to train on, drawn at random but always the same; by default all.
        points: number of points of each cloud to use, from the first; by default all.

    Raises:
        UsageError: the task does not exist.
    """
    task = vision_task(name)
    content = cache.load(task.dataset)
    kind = "points" if task.of_clouds else "images"
    suffix = "" if task.angle is None else f"_{task.angle}"
    train, labels = content[f"train_{kind}{suffix}"], content["train_labels"]
    held_out, held_labels = content[f"test_{kind}{suffix}"], content["test_labels"]
    if evaluation == "validation" and task.angle is not None:
        base = cache.load(str(task.pixels_of))
        held_out, held_labels = tuning_images(base, task.angle)
    elif evaluation == "validation":
        chosen, tuning = holdout(labels)
        held_out, held_labels = train[tuning], labels[tuning]
        train, labels = train[chosen], labels[chosen]
    if train_items is not None and train_items < len(train):
        some = sample(len(train), train_items, seed=0)
        train, labels = train[some], labels[some]
    if points is not None:
        train, held_out = train[:, :points], held_out[:, :points]
    return Arrays(train, labels, held_out, held_labels)
