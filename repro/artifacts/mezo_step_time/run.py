"""Time the steps of all methods on one model, in turns, and measure their memory.

Kinds of results:

- ``steps``: one model and batch. ``seconds`` has the mean seconds of a step in each turn, by arm.
  ``peak_bytes``, on a GPU only, has the memory of a step above the weights. ``out_of_memory`` names
  the arms for which the device's memory was too small.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_step_time import NOISES, Config, ModelName, TimedArm
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.core.errors import is_out_of_memory
from repro.finetuning.arms import device_for, uses_engine
from repro.finetuning.base_models import random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.learner import noise_of
from repro.finetuning.published_loop import PublishedLoop
from repro.measurement.device import Device, clocks, require_device
from repro.measurement.timing import Step, in_turns
from repro.memory.measured import peak_on_cuda
from repro.methods.backprop import Backprop
from repro.methods.mezo import MeZO
from repro.methods.perturbed_weights import Restore
from repro.models.training_mode import checkpoint_blocks, without_dropout
from repro.ondevice.build import build

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "tie_word_embeddings",
)
SHAPES: dict[ModelName, tuple[int, ...]] = {
    "tiny": (64, 32, 48, 2, 4, 2, True),
    "135M": (49152, 576, 1536, 30, 9, 3, True),
    "1B": (128256, 2048, 8192, 16, 32, 8, True),
    "7B": (32000, 4096, 11008, 32, 32, 32, False),
}
"""Values of ``_SIZES`` for SmolLM2-135M, Llama 3.2 1B and Llama 2 7B, and for a tiny test model."""
_EXACT = ("mezo_philox_exact", "mezo_philox_signs")
_EPS, _LR = 1e-3, 1e-9  # no time depends on them; at this rate the weights hardly change
_ANSWERS = np.array([1, 2], np.int32)


class TimedShape(NamedTuple):
    """A model and a batch whose steps are timed against each other in one process."""

    model: ModelName
    batch: int
    context: int


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield a result for each model and batch.

    Raises:
        UsageError: the device does not exist here.
        EngineError: the engine is to draw noise and cannot be built.
    """
    require_device(config.device)
    noises = {arm: NOISES.get(arm, "torch") for arm in config.arms}
    arms = tuple(arm for arm in noises if device_for(noises[arm]) in (None, config.device))
    if any(uses_engine(noises[arm]) for arm in arms):
        build()
    shapes = [
        TimedShape(model, batch, length)
        for model in config.models
        for batch, length in zip(config.batches, config.contexts, strict=True)
    ]
    for shape, metrics in run_in_subprocesses(
        "mezo_step_time",
        partial(time_steps, replace(config, arms=arms)),
        shapes,
        TimedShape._asdict,
        label=lambda shape: f"{shape.model}, B={shape.batch} N={shape.context}",
        store=context.result_cache,
        workers=1,  # parallel runs would distort each other's times
        preload=[__name__],
    ):
        point = {**shape._asdict(), "dtype": config.dtype, "device": config.device}
        yield Result("steps", point, metrics)


def time_steps(config: Config, timed: TimedShape) -> dict[str, Any]:
    """Time the arms in turns; at the top level of the module for use in another process."""
    from transformers import LlamaConfig

    device, items = config.device, timed.batch
    torch.set_num_threads(config.threads)
    torch.manual_seed(0)
    shape: dict[str, Any] = dict(zip(_SIZES, SHAPES[timed.model], strict=True))
    positions = max(2048, timed.context)
    llama = LlamaConfig(**shape, max_position_embeddings=positions, use_cache=False)
    try:
        with torch.device(device):
            model = random_model(llama, config.dtype)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return {"seconds": {}, "peak_bytes": {}, "out_of_memory": list(config.arms)}
    without_dropout(model)
    tokens = torch.randint(0, shape["vocab_size"], (items, timed.context))
    last = torch.full((items,), timed.context - 1)
    batch = Batch(*(part.to(device) for part in (tokens, last, torch.arange(items) % 2)))
    peaks: dict[str, int] = {}
    short: list[str] = []
    steps: dict[str, Step] = {}
    for arm in config.arms:
        found = None
        with contextlib.suppress(torch.OutOfMemoryError):
            step = _synchronised(_step(arm, model, batch), device)
            found = peak_on_cuda(step) if device == "cuda" else None
        if device == "cuda":
            if found is None:
                short.append(arm)
                step = _nothing  # frees what the arm holds
                model.zero_grad()
                gc.collect()
                torch.cuda.empty_cache()
                continue
            peaks[arm] = found.allocated
        steps[arm] = step
    seconds = in_turns(steps, config.turns, steps=config.steps, warm_up=1)
    metrics: dict[str, Any] = {
        "seconds": seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    if device == "cuda":
        metrics |= {"peak_bytes": peaks, "out_of_memory": short, "clocks_mhz": clocks()}
    return metrics


def _nothing() -> None:
    """Do nothing."""


def _synchronised(step: Step, device: Device) -> Step:
    """Return ``step`` extended to wait for the GPU at its end."""
    if device == "cpu":
        return step

    def synchronised() -> None:
        step()
        torch.cuda.synchronize()

    return synchronised


def _step(arm: TimedArm, model: "PreTrainedModel", batch: Batch) -> Step:
    """Return a step of ``arm``; all arms except LoRA change the same weights."""
    classifier = AnswerClassifier(model, _ANSWERS)

    def loss() -> torch.Tensor:
        return classifier.loss(batch)

    if arm == "two_forwards":
        return torch.no_grad()(lambda: [loss().item() for _ in range(2)])
    if arm == "bp":
        backprop = Backprop(model.parameters(), lr=_LR)
        return lambda: backprop.step(loss)
    if arm == "bp_checkpoint":
        return _checkpointed(model, Backprop(model.parameters(), lr=_LR), loss)
    if arm == "lora":
        return _lora(model, batch)
    if arm == "published":
        loop = PublishedLoop(model, _ANSWERS.tolist(), _LR, _EPS)
        seeds = count()
        return lambda: loop.step(batch, next(seeds))
    restore: Restore = "exact" if arm in _EXACT else "rounded"
    noise = noise_of(NOISES[arm])
    mezo = MeZO(model.parameters(), lr=_LR, eps=_EPS, restore=restore, noise=noise)
    return lambda: mezo.step(loss)


def _checkpointed(
    model: "PreTrainedModel", backprop: Backprop, loss: Callable[[], torch.Tensor]
) -> Step:
    def step() -> None:
        model.train()  # transformers checkpoints only in training mode
        checkpoint_blocks(model)
        try:
            backprop.step(loss)
        finally:
            model.activation_checkpointing_disable()  # type: ignore[no-untyped-call]

    return step


def _lora(model: "PreTrainedModel", batch: Batch) -> Step:
    """Return a step of Adam on adapters of rank 8 with a second, frozen copy of the weights."""
    from copy import deepcopy

    from peft import LoraConfig, get_peft_model

    targets = ["q_proj", "v_proj"]
    adapted: Any = get_peft_model(deepcopy(model), LoraConfig(r=8, target_modules=targets))
    classifier = AnswerClassifier(adapted.base_model.model, _ANSWERS)
    backprop = Backprop(adapted.parameters(), lr=_LR, rule="adam")
    return lambda: backprop.step(lambda: classifier.loss(batch))
