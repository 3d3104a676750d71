"""Evaluate the controls of Fig. 4: each model's accuracy on each task before any training."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.artifacts.shared.training_runs import recorded_or_made
from repro.core.errors import is_out_of_memory
from repro.core.names import Dtype
from repro.data.text.tasks import data_of
from repro.finetuning.sources import recorded_sources, require_sources
from repro.finetuning.step_memory import ArmStep
from repro.finetuning.zero_shot import zero_shot
from repro.measurement.environment import source_sha256
from repro.measurement.result_cache import ResultCache


class Control(NamedTuple):
    """One model on one task; picklable."""

    dataset: str
    model: str
    sources: str
    """Identifies the model's weights and the task's rows (``sources_of``)."""
    dtype: Dtype
    context: int
    batch: int


def evaluate(config: Config, control: Control) -> dict[str, Any]:
    """Return the metrics of ``repro.finetuning.zero_shot.zero_shot``, or ``out_of_memory``.

    Raises:
        ReproError: the weights or the rows changed since the command began.
    """
    torch.set_num_threads(config.threads)
    require_sources(control.sources, control.model, control.dataset)
    try:
        return zero_shot(
            control.model,
            control.dataset,
            control.dtype,
            config.device,
            context=control.context,
            batch=control.batch,
            calibration_items=config.tuning_items,
            items=config.final_items,
        )
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return {"out_of_memory": " ".join(str(error).split())}


def zero_shot_controls(
    config: Config,
    sources: Mapping[str, Mapping[str, str]],
    setups: Sequence[ArmStep],
    prepared: ResultCache,
    context: Context,
) -> Iterator[Result]:
    """Yield the zero-shot accuracy of every trained model, in the format, B and N of its arm.

    If several arms train a model in different ways, the first arm's are used. A model that exceeds
    a GPU's memory is reported and left out.

    Args:
        config: the configuration.
        sources: what identifies the rows of a task and the weights of a model, by task and model.
        setups: the set-ups to be trained.
        prepared: the cache of accuracies.
        context: the context of the artifact's run.

    Raises:
        ReproError: a process died, or weights or rows changed since the command began.
    """
    first: dict[str, ArmStep] = {}
    for setup in setups:
        first.setdefault(setup.model, setup)
    results = {
        Control(dataset, model, of_task[model], setup.dtype, setup.context, setup.batch): Result(
            "zero_shot",
            {"setting": config.setting, "dataset": dataset, "model": model},
            {
                "settings": {
                    "dtype": setup.dtype,
                    "context": setup.context,
                    "calibration_items": config.tuning_items,
                    "items": config.final_items,
                    **recorded_sources(of_task[model]),
                }
            },
        )
        for dataset, of_task in sources.items()
        for model, setup in first.items()
    }
    yield from recorded_or_made(results, context, partial(_evaluated, config, prepared))


def _evaluated(
    config: Config, prepared: ResultCache, controls: Sequence[Control]
) -> Iterator[tuple[Control, dict[str, Any]]]:
    def key(control: Control) -> dict[str, Any]:
        return {
            "kind": "zero_shot",
            **control._asdict(),
            "calibration_items": config.tuning_items,
            "items": config.final_items,
            "device": config.device,
            "threads": config.threads,
            "data": data_of(control.dataset),
            "code": source_sha256("finetuning"),
        }

    for control, metrics in run_in_subprocesses(
        "mezo_fig4 zero-shot accuracy",
        partial(evaluate, config),
        controls,
        key,
        label=lambda one: f"{one.model} on {one.dataset}",
        store=prepared,
        workers=1,
        preload=[evaluate.__module__],
    ):
        if reason := metrics.get("out_of_memory"):
            sys.stderr.write(
                f"{control.model} on {control.dataset}: zero-shot accuracy left out: {reason}\n"
            )
        else:
            yield control, metrics
