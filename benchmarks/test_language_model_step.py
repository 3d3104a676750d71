"""A MeZO step of SmolLM2-135M's architecture beside two forward passes and the published loop."""

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from repro.core.names import Dtype
from repro.finetuning.base_models import random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.published_loop import PublishedLoop
from repro.measurement.timing import Step, ratio, ratio_range
from repro.memory import measured
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.perturbed_weights import PerturbedWeights, Restore
from repro.methods.torch_noise import TorchNoise
from repro.models.training_mode import without_dropout
from repro.ondevice.noise import EngineNoise, EngineSigns, TorchNoiseOnEngine

EPS, LR = 1e-3, 1e-7
ANSWERS = np.array([1, 2], np.int32)


class Scale(NamedTuple):
    """A model and a batch."""

    model: dict[str, Any]
    batch: int
    context: int


SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}
TINY = {"vocab_size": 64, "hidden_size": 36, "intermediate_size": 48, "num_hidden_layers": 2}
SMOLLM2_135M = Scale(SMOLLM2, 8, 128)
SMALL = Scale(SMOLLM2 | TINY, 2, 16)
"""Where benchmarks run once, untimed: the arms are tried, not compared."""


_PASSES = "passes of "
OURS = ("mezo", "mezo, engine's noise", "mezo, engine's signs")
DRAWS: dict[str, Callable[[], Noise]] = {
    "mezo": TorchNoiseOnEngine,  # which helps where the walk is exact
    "mezo, engine's noise": EngineNoise,
    "mezo, engine's signs": EngineSigns,
    "mezo, no engine": TorchNoise,
}
WAYS: tuple[tuple[Dtype, Restore], ...] = (
    ("float32", "rounded"),
    ("bfloat16", "rounded"),
    ("bfloat16", "exact"),
)
"""In float32 `mezo_fig4` takes the rounded walk, in half precision the exact one."""


def _ours(restore: Restore) -> tuple[str, ...]:
    """Return the arms that are ours: without the engine a rounded walk is the same."""
    return tuple(DRAWS) if restore == "exact" else OURS


def step_of(arm: str, dtype: Dtype, restore: Restore, scale: Scale) -> Step:
    """Return a step of one arm on a model of its own."""
    torch.manual_seed(0)
    model = random_model(LlamaConfig(**scale.model), dtype)
    without_dropout(model)
    size = (scale.batch, scale.context)
    tokens = torch.randint(0, scale.model["vocab_size"], size)
    last = torch.full(size[:1], scale.context - 1)
    batch = Batch(tokens, last, torch.arange(scale.batch) % 2)
    classifier = AnswerClassifier(model, ANSWERS)
    weights = list(model.parameters())
    if arm == "forward":
        return torch.no_grad()(lambda: classifier.loss(batch).item())
    if arm == "two forwards":  # as long as the others, so that nothing weighs on it more
        return torch.no_grad()(lambda: [classifier.loss(batch).item() for _ in range(2)])
    if arm.startswith(_PASSES):
        noise = DRAWS[arm.removeprefix(_PASSES)]()
        return passes_of(PerturbedWeights(weights, restore, EPS, None, noise))
    if arm == "published":
        loop = PublishedLoop(model, ANSWERS.tolist(), LR, EPS)
        seeds = count()
        return lambda: loop.step(batch, next(seeds))
    mezo = MeZO(weights, lr=LR, eps=EPS, restore=restore, noise=DRAWS[arm]())
    return lambda: mezo.step(lambda: classifier.loss(batch))


def passes_of(weights: PerturbedWeights) -> Step:
    """Return the three passes over the weights that a step of MeZO makes."""
    weights.prepare()

    def passes() -> None:
        weights.perturb(5, 1)
        weights.perturb(5, -1)
        weights.update([(5, 0.0)])
        weights.release()

    return passes


def peak_of_step(arm: str, dtype: Dtype, restore: Restore, scale: Scale) -> int:
    """Return the bytes that a step takes beside the weights and the batch."""
    torch.set_num_threads(1)
    return measured.peak_of_step(step_of(arm, dtype, restore, scale))


_SETTINGS = (
    pytest.mark.usefixtures("engine"),
    pytest.mark.parametrize("tokens", ["16 x 32", "8 x 128"]),
    pytest.mark.parametrize(("dtype", "restore"), WAYS),
)


def _of_all(test: Any) -> Any:
    """Run ``test`` at every batch, number format and restore."""
    for mark in _SETTINGS:
        test = mark(test)
    return test


@_of_all
def test_language_model_step(
    benchmark: Any, timed: Any, dtype: Dtype, restore: Restore, tokens: str
) -> None:
    """``ratios``: our steps over two forwards, the published over ours, and the share of noise.

    A step contains two forwards: a ratio below 1 says how far the machine let the arms drift, and
    ``ranges`` between which ratios the turns lie.
    """
    _compare(benchmark, timed, dtype, restore, tokens)


@_of_all
def test_language_model_step_on_one_thread(
    benchmark: Any, timed: Any, dtype: Dtype, restore: Restore, tokens: str
) -> None:
    """``ratios``: as above, on one thread."""
    torch.set_num_threads(1)
    _compare(benchmark, timed, dtype, restore, tokens)


def _compare(benchmark: Any, timed: Any, dtype: Dtype, restore: Restore, tokens: str) -> None:
    batch, context = map(int, tokens.split(" x "))
    scale = Scale(SMOLLM2, batch, context) if benchmark.enabled else SMALL
    ours = _ours(restore)
    passes = {arm: _PASSES + arm for arm in OURS}
    names = (*ours, "two forwards", *passes.values(), "published")
    arms = {name: step_of(name, dtype, restore, scale) for name in names}
    seconds = timed(arms, turns=5, steps=1, warm_up=1)
    pairs = {f"{arm}/two forwards": (arm, "two forwards") for arm in ours}
    pairs |= {f"published/{arm}": ("published", arm) for arm in ours}
    found = {name: ratio(seconds, *pair) for name, pair in pairs.items()}
    found |= {
        f"three perturbations/{arm}": ratio(seconds, alone, arm) for arm, alone in passes.items()
    }
    benchmark.extra_info["ratios"] = found
    benchmark.extra_info["ranges"] = {n: ratio_range(seconds, *pair) for n, pair in pairs.items()}


@pytest.mark.memray
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("dtype", "restore"), WAYS)
@pytest.mark.parametrize("arm", ["forward", *DRAWS, "published"])
def test_memory_of_a_language_model_step(
    benchmark: Any, arm: str, dtype: Dtype, restore: Restore
) -> None:
    """``peak_bytes``: what the step takes beside its weights, by memray."""

    def run() -> None:
        if not benchmark.enabled:  # tried in this process, for a new one imports for seconds
            benchmark.extra_info["peak_bytes"] = peak_of_step(arm, dtype, restore, SMALL)
            return
        command = [sys.executable, __file__, arm, dtype, restore]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        benchmark.extra_info["peak_bytes"] = int(done.stdout)

    benchmark.pedantic(run, rounds=1)


if __name__ == "__main__":
    made: Any = sys.argv[1:]
    sys.stdout.write(str(peak_of_step(*made, SMOLLM2_135M)))
