"""Evaluate the controls of Fig. 4: each model's accuracy on each task before any training."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.artifacts.shared.training_runs import recorded_or_made
from repro.core.names import Dtype
from repro.data.text.tasks import data_of
from repro.finetuning.base_models import fingerprint
from repro.finetuning.step_memory import Setup
from repro.finetuning.zero_shot import zero_shot
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.measurement.result_cache import ResultCache


@dataclass(frozen=True)
class Control:
    """One model on one task; picklable."""

    dataset: str
    model: str
    base: str
    """Fingerprint (``fingerprint``) of the model's weights."""
    dtype: Dtype
    context: int
    calibration_items: int
    items: int
    device: Device
    threads: int

    def key(self) -> dict[str, Any]:
        """Return everything that decides the accuracies, for a cache."""
        made_of = {"data": data_of(self.dataset), "code": source_sha256("finetuning")}
        return {"kind": "zero_shot", **asdict(self), **made_of}


def evaluate(control: Control) -> dict[str, Any]:
    """Return the metrics of ``repro.finetuning.zero_shot.zero_shot``."""
    torch.set_num_threads(control.threads)
    return zero_shot(
        control.model,
        control.dataset,
        control.dtype,
        control.device,
        context=control.context,
        calibration_items=control.calibration_items,
        items=control.items,
    )


def zero_shot_controls(
    config: Config,
    datasets: Sequence[str],
    setups: Sequence[Setup],
    prepared: ResultCache,
    context: Context,
) -> Iterator[Result]:
    """Yield the zero-shot accuracy of every trained model, in the number format of its training.

    If several arms train a model in different formats, the first arm's format is used.
    """
    formats: dict[str, Setup] = {}
    for setup in setups:
        formats.setdefault(setup.model, setup)
    results = {
        Control(
            dataset,
            model,
            fingerprint(model),
            setup.dtype,
            config.context,
            config.tuning_items,
            config.final_items,
            setup.device,
            setup.threads,
        ): Result(
            "zero_shot",
            {"setting": config.setting, "dataset": dataset, "model": model},
            {"settings": {"dtype": setup.dtype, "context": config.context}},
        )
        for dataset in datasets
        for model, setup in formats.items()
    }
    yield from recorded_or_made(results, context, partial(_evaluated, prepared))


def _evaluated(
    prepared: ResultCache, controls: Sequence[Control]
) -> Iterator[tuple[Control, dict[str, Any]]]:
    return run_in_subprocesses(
        "mezo_fig4 zero-shot accuracy",
        evaluate,
        controls,
        Control.key,
        label=lambda one: f"{one.model} on {one.dataset}",
        store=prepared,
        workers=1,
    )
