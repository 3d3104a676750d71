"""Train with one suspected cause changed at a time, and evaluate trained networks on other images.

Kinds of results:

- ``run``: one training run. The point names data set, angle, precision and method, as in the
  tables, and the settings of ``causes.SETTINGS`` that the run has. The metrics are its curves, its
  settings and ``changed``, the settings that differ from the tables.
- ``evaluation``: one network on one set of rotated test images; see ``images.evaluations``.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_discrepancies import Config, causes
from repro.artifacts.elasticzo_discrepancies.images import VIEWS, RotatedImages, evaluations
from repro.artifacts.shared.ablation import Ablation, change, run_ablations
from repro.artifacts.shared.images import ImageRuns
from repro.artifacts.shared.training_runs import by_engine, image_runs, rotated_run
from repro.core.names import METHODS, ZEROTH_ORDER, MethodName, Precision
from repro.training.run import NetworkRun

Asked = list[tuple[NetworkRun, RotatedImages]]
_PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
_BATCH = (causes.BATCH,)


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield the results of each experiment; two of them share some networks."""
    chosen = [_EVALUATED[name] for name in config.experiments if name in _EVALUATED]
    asked = [pair for networks in chosen for pair in networks(config)]
    as_trained = [(by_engine(base, config.engine), images) for base, images in asked]
    yield from evaluations(list(dict.fromkeys(as_trained)), context)
    ablations = [_TRAINED[name] for name in config.experiments if name in _TRAINED]
    trained = [one for ablation in ablations for one in ablation(config)]
    for result, changes in run_ablations(
        trained, context, coordinates=causes.SETTINGS, engine=config.engine
    ):
        yield replace(result, metrics={**result.metrics, "changed": dict(changes)})


def _test_images(config: Config) -> Asked:
    """Return the networks of Table 2 before fine-tuning and, on MNIST, after it.

    Networks in INT8 are also fine-tuned with the batch size of training from scratch.
    """
    asked: Asked = []
    for dataset, precision, seed in product(config.datasets, _PRECISIONS, config.seeds):
        start = _tuned(config, dataset, 30, precision, "full_bp", seed).start
        assert start is not None  # noqa: S101 - fine-tuning has one
        asked += [(start, replace(v, angle=a)) for a, v in product(config.angles, VIEWS)]
        if dataset == "mnist":
            for angle, method in product(config.angles, ZEROTH_ORDER):
                own = _tuned(config, dataset, angle, precision, method, seed)
                variants = (
                    [own] if precision == "fp32" else [c for c, _ in Ablation([own], _BATCH).runs()]
                )
                # a fine-tuned network is evaluated only on images rotated as its training images
                views = [
                    replace(view, angle=angle)
                    for view in VIEWS
                    if (view.turn, view.interpolation) == (VIEWS[0].turn, VIEWS[0].interpolation)
                ]
                asked += list(product(variants, views))
    return asked


def _pre_training(config: Config) -> Asked:
    """Return the networks of every learning rate and batch size of pre-training."""
    asked: Asked = []
    grid = product(config.datasets, config.rates, config.batches, config.long_seeds)
    for dataset, rate, batch, seed in grid:
        base = _tuned(config, dataset, 30, "fp32", "full_bp", seed)
        start = change(base, {"start_lr": rate, "start_batch": batch}).start
        assert start is not None  # noqa: S101 - fine-tuning has one
        asked += [(start, replace(v, angle=a)) for a, v in product(config.angles, VIEWS[:2])]
    return asked


def _integer_tuning(config: Config) -> Iterator[Ablation]:
    """Yield ablations of the rows that differ most, and of every row with another batch size."""
    rows = product(config.datasets, config.angles, METHODS, config.seeds)
    for dataset, angle, method, seed in rows:
        base = _tuned(config, dataset, angle, "int8", method, seed)
        yield Ablation([base], _BATCH)
        if dataset == "fashion_mnist" and (method == "full_zo" or (angle, method) == (45, "cls1")):
            yield Ablation([base], causes.OF_INTEGER_TUNING)


def _float_tuning(config: Config) -> Iterator[Ablation]:
    """Yield the ablations of Cls2 on Fashion-MNIST, where we are below the table."""
    if "fashion_mnist" in config.datasets:
        for angle, seed in product(config.angles, config.long_seeds):
            base = _tuned(config, "fashion_mnist", angle, "fp32", "cls2", seed)
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


def _tuned(
    config: Config, dataset: str, angle: int, precision: Precision, method: MethodName, seed: int
) -> NetworkRun:
    """Return the run of Table 2, pre-trained on ``config.image_items`` images."""
    base = rotated_run(config, dataset, angle, precision, method, seed)
    assert base.start is not None  # noqa: S101 - fine-tuning has one
    return replace(base, start=replace(base.start, train_items=config.image_items))


_EVALUATED = {"test_images": _test_images, "pre_training": _pre_training}
_TRAINED = {
    "integer_tuning": _integer_tuning,
    "float_tuning": _float_tuning,
    "integer_training": _integer_training,
}
