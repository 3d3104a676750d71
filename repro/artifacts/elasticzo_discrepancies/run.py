"""Train with one suspected cause changed at a time, and evaluate trained networks on other images.

Kinds of results:

- ``run``: one training run. The point names data set, angle, precision and method, as in the
  tables, and the settings of ``causes.SETTINGS`` that the run has. The metrics are its curves, its
  settings and ``changed``, the settings that differ from the tables. Runs of PointNet at Table 1's
  length also have their number of points in the point.
- ``evaluation``: the accuracy of one network on one set of rotated test images. The point names the
  images, the data set, the precision, the method (``none`` without fine-tuning), the learning rate
  and batch size of pre-training, and the batch size of fine-tuning.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache as cache_calls
from functools import partial
from itertools import groupby, product
from typing import Any, Literal

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_discrepancies import Config, causes
from repro.artifacts.elasticzo_discrepancies.causes import FIRST, TABLE_2, VIEWS
from repro.artifacts.shared.ablation import Ablation, change, run_ablations
from repro.artifacts.shared.images import ImageRuns, TrainingRuns
from repro.artifacts.shared.training_runs import (
    TrainingBudget,
    by_engine,
    each_part,
    image_runs,
    recorded_or_made,
    rotated_run,
    scratch_runs,
    settings_of,
)
from repro.core.names import METHODS, ZEROTH_ORDER, MethodName, Precision
from repro.data import cache
from repro.data.arrays import Array
from repro.data.batches import batches, to_tensors
from repro.data.images.rotated import SEED, SIZE
from repro.data.images.rotation import rotate
from repro.data.splits import sample
from repro.execution.schedule import DryRunExecutor
from repro.measurement.device import require_device
from repro.training.build import build_learner, quantised_levels
from repro.training.run import NetworkRun
from repro.training.split import Split
from repro.training.store import CheckpointStore
from repro.training.task import vision_task
from repro.training.trainer import TrainingTask, final_state

_PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
_BATCH = (causes.BATCH,)


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


EvaluatedNetwork = tuple[NetworkRun, RotatedImages]
Asked = list[EvaluatedNetwork]


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield the results of each experiment; two of them share some networks.

    Raises:
        UsageError: trained networks are to be evaluated on a device that this machine lacks.
        RunsFailedError: some runs failed; all others were trained.
    """
    chosen = [_EVALUATED[name] for name in config.experiments if name in _EVALUATED]
    asked = [pair for networks in chosen for pair in networks(config)]
    as_trained = [(by_engine(base, config.engine), images) for base, images in asked]
    yield from each_part(
        (
            evaluations(as_trained, context),
            _trained(_TRAINED, causes.SETTINGS, config, context),
            # their points tell them from the shorter runs with the same settings
            _trained(_LONG, (*causes.SETTINGS, "points"), config, context),
        )
    )


def _trained(
    experiments: Mapping[str, Callable[[Config], Iterator[Ablation]]],
    coordinates: Sequence[str],
    config: Config,
    context: Context,
) -> Iterator[Result]:
    ablations = [experiments[name] for name in config.experiments if name in experiments]
    trained = [one for ablation in ablations for one in ablation(config)]
    for result, changes in run_ablations(
        trained, context, coordinates=coordinates, engine=config.engine
    ):
        yield replace(result, metrics={**result.metrics, "changed": dict(changes)})


def evaluations(asked: Asked, context: Context) -> Iterator[Result]:
    """Yield the accuracy of each trained network on the images asked for.

    Networks that are not trained yet are trained first.
    """
    named = {
        (run, images): Result(
            "evaluation", _point_of(run, images), {"settings": settings_of(run)}, run.seed
        )
        for run, images in asked
    }
    yield from recorded_or_made(named, context, partial(_evaluated, context))


def _evaluated(
    context: Context, asked: Sequence[EvaluatedNetwork]
) -> Iterator[tuple[EvaluatedNetwork, dict[str, Any]]]:
    runs = list(dict.fromkeys(run for run, _ in asked))
    if not isinstance(context.executor, DryRunExecutor):
        for device in {run.device for run in runs}:
            require_device(device)  # they are evaluated here, wherever they are trained
    for _ in context.executor.run(runs):
        pass
    store = CheckpointStore.of(context.environment, context.executor.threads)
    rotated = cache_calls(RotatedImages.of)  # rotating 10,000 takes longer than classifying
    for run, wanted in groupby(asked, key=lambda pair: pair[0]):
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
            yield (run, images), {"accuracy": right / len(labels)}


def _point_of(run: NetworkRun, images: RotatedImages) -> dict[str, object]:
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


def _test_images(config: Config) -> Asked:
    """Return the networks of Table 2 before fine-tuning and, on MNIST, after it.

    Networks in INT8 are also fine-tuned with the other batch sizes of ``causes.BATCH``.
    """
    asked: Asked = []
    for dataset, precision, seed in product(config.datasets, _PRECISIONS, config.seeds):
        start = rotated_run(config, dataset, 30, precision, "full_bp", seed).start
        assert start is not None  # noqa: S101 - fine-tuning has one
        asked += [
            (start, RotatedImages(angle, **view))
            for angle, view in product(config.angles, VIEWS.values())
        ]
        if dataset == "mnist":
            for angle, method in product(config.angles, ZEROTH_ORDER):
                own = rotated_run(config, dataset, angle, precision, method, seed)
                variants = (
                    [own] if precision == "fp32" else [c for c, _ in Ablation([own], _BATCH).runs()]
                )
                # a fine-tuned network is evaluated only on images rotated as its training images
                views = [
                    RotatedImages(angle, **view)
                    for view in VIEWS.values()
                    if {**view, "images": TABLE_2["images"]} == TABLE_2
                ]
                asked += list(product(variants, views))
    return asked


def _pre_training(config: Config) -> Asked:
    """Return the networks of every learning rate and batch size of pre-training."""
    asked: Asked = []
    grid = product(config.datasets, config.rates, config.batches, config.long_seeds)
    for dataset, rate, batch, seed in grid:
        base = rotated_run(config, dataset, 30, "fp32", "full_bp", seed)
        start = change(base, {"start_lr": rate, "start_batch": batch}).start
        assert start is not None  # noqa: S101 - fine-tuning has one
        asked += [
            (start, RotatedImages(angle, **view))
            for angle, view in product(config.angles, (TABLE_2, FIRST))
        ]
    return asked


def _integer_tuning(config: Config) -> Iterator[Ablation]:
    """Yield ablations of the rows that differ most, and of every row with other batch sizes."""
    rows = product(config.datasets, config.angles, METHODS, config.seeds)
    for dataset, angle, method, seed in rows:
        base = rotated_run(config, dataset, angle, "int8", method, seed)
        yield Ablation([base], _BATCH)
        if method == "full_zo" or (dataset, angle, method) == ("fashion_mnist", 45, "cls1"):
            yield Ablation([base], causes.OF_INTEGER_TUNING)


def _float_tuning(config: Config) -> Iterator[Ablation]:
    """Yield the ablations of Cls2 on Fashion-MNIST, where we are below the table."""
    if "fashion_mnist" in config.datasets:
        for angle, seed in product(config.angles, config.long_seeds):
            base = rotated_run(config, "fashion_mnist", angle, "fp32", "cls2", seed)
            yield Ablation([base], causes.OF_FLOAT_TUNING)


def _integer_training(config: Config) -> Iterator[Ablation]:
    """Yield the ablations of Cls2 on MNIST from scratch in INT8*, where we are below Table 1."""
    if "mnist" in config.datasets:
        runs = ImageRuns(
            datasets=("mnist",),
            seeds=config.long_seeds,
            epochs=config.integer_training_epochs,
            image_items=config.image_items,
            device=config.device,
        )
        bases = list(image_runs(runs, ("int8_star",), ("cls2",)))
        yield Ablation(bases, causes.OF_INTEGER_TRAINING)


def _point_clouds(config: Config) -> Iterator[Ablation]:
    """Yield the ablation of short runs of PointNet."""
    budget = TrainingBudget(config.cloud_epochs, config.cloud_items, config.cloud_points)
    yield Ablation(_point_nets(config, METHODS, budget), causes.OF_CLOUDS)


def _long_point_clouds(config: Config) -> Iterator[Ablation]:
    """Yield the ablation of runs of Table 1's length; that table has the base runs."""
    budget = TrainingBudget(config.long_cloud_epochs, config.cloud_items, config.long_cloud_points)
    bases = _point_nets(config, causes.ENDS, budget)
    yield Ablation(bases, causes.OF_LONG_CLOUDS, trains_bases=False)


def _point_nets(
    config: Config, methods: Sequence[MethodName], budget: TrainingBudget
) -> list[NetworkRun]:
    """Return the runs of PointNet in float32 from random weights."""
    seeds = TrainingRuns(seeds=config.long_seeds, device=config.device)
    return list(
        scratch_runs(seeds, config.cloud_datasets, ("fp32",), methods, images=budget, clouds=budget)
    )


_EVALUATED = {"test_images": _test_images, "pre_training": _pre_training}
_TRAINED = {
    "integer_tuning": _integer_tuning,
    "float_tuning": _float_tuning,
    "integer_training": _integer_training,
    "point_clouds": _point_clouds,
}
_LONG = {"long_point_clouds": _long_point_clouds}
