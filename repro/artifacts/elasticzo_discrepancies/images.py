"""Evaluate networks on other rotated images than Table 2's."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache as cache_calls
from itertools import groupby
from typing import Literal

from repro.artifacts.base import Context, Result
from repro.artifacts.shared.training_runs import settings_of
from repro.data import cache
from repro.data.base import Array
from repro.data.batches import batches, to_tensors
from repro.data.images.rotated import SEED, SIZE
from repro.data.images.rotation import rotate
from repro.data.splits import sample
from repro.training.build import build_learner, quantised_levels
from repro.training.run import NetworkRun
from repro.training.split import Split
from repro.training.store import CheckpointStore
from repro.training.task import vision_task
from repro.training.trainer import TrainingTask, final_state


@dataclass(frozen=True)
class RotatedImages:
    """Rotated images of the test split, and how they were made."""

    angle: int
    """Degrees."""
    images: Literal["drawn", "first", "all"] = "drawn"
    """1,024 drawn at random, as in our Table 2; the first 1,024; or all 10,000."""
    turn: Literal["counter-clockwise", "clockwise"] = "counter-clockwise"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"

    def of(self, dataset: str) -> tuple[Array, Array]:
        """Return the images, uint8 [N, 28, 28], and their labels."""
        content = cache.load(dataset)
        images, labels = content["test_images"], content["test_labels"]
        if self.images != "all":
            drawn = self.images == "drawn"
            chosen = sample(len(images), SIZE, SEED) if drawn else slice(SIZE)
            images, labels = images[chosen], labels[chosen]
        degrees = self.angle if self.turn == "counter-clockwise" else -self.angle
        if self.interpolation == "nearest":
            from scipy.ndimage import rotate as turned

            return turned(images, degrees, axes=(1, 2), reshape=False, order=0), labels
        return rotate(images, degrees), labels


VIEWS = (
    RotatedImages(30),
    RotatedImages(30, images="first"),
    RotatedImages(30, images="all"),
    RotatedImages(30, turn="clockwise"),
    RotatedImages(30, interpolation="nearest"),
)
"""Table 2's images, and images that differ from them in one respect; the angle is an example."""


def evaluations(
    asked: Sequence[tuple[NetworkRun, RotatedImages]], context: Context
) -> Iterator[Result]:
    """Yield the accuracy of each trained network on the images asked for.

    Networks that are not trained yet are trained first. The point names the images, the data set,
    the precision, the method (``none`` without fine-tuning), the learning rate and batch size of
    pre-training, and the batch size of fine-tuning.
    """
    missing = []
    for run, images in asked:
        found = context.prior_results.metrics(
            "evaluation", _point(run, images), run.seed, settings_of(run)
        )
        if found is None:
            missing.append((run, images))
        else:
            yield Result("evaluation", _point(run, images), found, run.seed)
    if not missing:
        return
    runs = list(dict.fromkeys(run for run, _ in missing))
    for _ in context.executor.run(runs):
        pass
    store = CheckpointStore.of(context.environment)
    rotated = cache_calls(RotatedImages.of)  # rotating 10,000 takes longer than classifying
    for run, wanted in groupby(missing, key=lambda pair: pair[0]):
        learner = build_learner(run)
        state = final_state(run, TrainingTask(run, store, context.environment.code))
        learner.load_weights(state["learner"])
        for _, images in wanted:
            items = rotated(images, str(vision_task(run.task).pixels_of))
            inputs, labels = to_tensors(*items, run.device)
            if run.precision != "fp32":
                levels = quantised_levels(vision_task(run.task)).values
                inputs = levels[inputs.cpu().int()].unsqueeze(1).to(run.device)
            parts = batches(inputs, labels, Split.evaluated_at_once)
            right = sum(learner.evaluate(part)[1] for part in parts)
            metrics = {"accuracy": right / len(labels), "settings": settings_of(run)}
            yield Result("evaluation", _point(run, images), metrics, run.seed)


def _point(run: NetworkRun, images: RotatedImages) -> dict[str, object]:
    problem = vision_task(run.task)
    start = run.start or run
    of_start = {f"start_{name}": getattr(start.settings, name, None) for name in ("lr", "batch")}
    return {
        "dataset": problem.pixels_of,
        "precision": run.precision,
        "method": "none" if run.start is None else run.method,
        **of_start,
        **({} if run.start is None else {"batch": run.settings.batch}),
        **asdict(images),
    }
