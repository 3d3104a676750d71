"""Evaluate the controls of Fig. 4: each model's accuracy on each task before any training."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.artifacts.shared.training_runs import recorded_or_made
from repro.core.names import Dtype
from repro.data.text.tasks import data_of
from repro.finetuning.base_models import fingerprint
from repro.finetuning.step_memory import ArmStep
from repro.finetuning.zero_shot import zero_shot
from repro.measurement.environment import source_sha256
from repro.measurement.result_cache import ResultCache


class Control(NamedTuple):
    """One model on one task; picklable."""

    dataset: str
    model: str
    base: str
    """Fingerprint (``fingerprint``) of the model's weights."""
    dtype: Dtype


def evaluate(config: Config, control: Control) -> dict[str, Any]:
    """Return the metrics of ``repro.finetuning.zero_shot.zero_shot``."""
    torch.set_num_threads(config.threads)
    return zero_shot(
        control.model,
        control.dataset,
        control.dtype,
        config.device,
        context=config.context,
        calibration_items=config.tuning_items,
        items=config.final_items,
    )


def zero_shot_controls(
    config: Config,
    datasets: Sequence[str],
    setups: Sequence[ArmStep],
    prepared: ResultCache,
    context: Context,
) -> Iterator[Result]:
    """Yield the zero-shot accuracy of every trained model, in the number format of its training.

    If several arms train a model in different formats, the first arm's format is used.
    """
    formats: dict[str, Dtype] = {}
    for setup in setups:
        formats.setdefault(setup.model, setup.dtype)
    results = {
        Control(dataset, model, fingerprint(model), dtype): Result(
            "zero_shot",
            {"setting": config.setting, "dataset": dataset, "model": model},
            {
                "settings": {
                    "dtype": dtype,
                    "context": config.context,
                    "calibration_items": config.tuning_items,
                    "items": config.final_items,
                }
            },
        )
        for dataset in datasets
        for model, dtype in formats.items()
    }
    yield from recorded_or_made(results, context, partial(_evaluated, config, prepared))


def _evaluated(
    config: Config, prepared: ResultCache, controls: Sequence[Control]
) -> Iterator[tuple[Control, dict[str, Any]]]:
    def key(control: Control) -> dict[str, Any]:
        return {
            "kind": "zero_shot",
            **control._asdict(),
            "context": config.context,
            "calibration_items": config.tuning_items,
            "items": config.final_items,
            "device": config.device,
            "threads": config.threads,
            "data": data_of(control.dataset),
            "code": source_sha256("finetuning"),
        }

    return run_in_subprocesses(
        "mezo_fig4 zero-shot accuracy",
        partial(evaluate, config),
        controls,
        key,
        label=lambda one: f"{one.model} on {one.dataset}",
        store=prepared,
        workers=1,
        preload=[evaluate.__module__],
    )
