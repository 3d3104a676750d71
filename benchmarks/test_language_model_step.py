"""A MeZO step of SmolLM2-135M's architecture beside two forward passes and the published loop."""

import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

sys.path.insert(0, str(Path(__file__).parent))

from published_loop import PublishedLoop

from repro.core.names import Dtype
from repro.finetuning.base_models import random_model
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import YesNoClassifier, without_dropout
from repro.finetuning.learner import restore_of
from repro.measurement.timing import Step, ratio
from repro.memory import measured
from repro.methods.mezo import MeZO
from repro.methods.perturbation import perturb_

BATCH, CONTEXT = 8, 128
ONCE = (2, 16)
"""Batch and context where benchmarks run once, untimed: the arms are tried, not compared."""
EPS, LR = 1e-3, 1e-7
ANSWERS = np.array([1, 2], np.int32)
SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}


def step_of(arm: str, dtype: Dtype, size: tuple[int, int]) -> Step:
    """Return a step of one arm on a model of its own."""
    torch.manual_seed(0)
    model = random_model(LlamaConfig(**SMOLLM2), dtype)
    without_dropout(model)
    tokens = torch.randint(0, SMOLLM2["vocab_size"], size)
    last = torch.full((size[0],), size[1] - 1)
    batch = Batch(tokens, last, torch.arange(size[0]) % 2)
    classifier = YesNoClassifier(model, ANSWERS)
    if arm == "forward":
        return torch.no_grad()(lambda: classifier.loss(batch).item())
    if arm == "noise":
        weights = list(model.parameters())
        return lambda: perturb_(weights, 0, 0.0)
    if arm == "published":
        loop = PublishedLoop(model, ANSWERS.tolist(), LR, EPS)
        seeds = count()
        return lambda: loop.step(batch, next(seeds))
    restore = restore_of(dtype) if arm == "mezo" else "rounded"
    mezo = MeZO(model.parameters(), lr=LR, eps=EPS, restore=restore)
    return lambda: mezo.step(lambda: classifier.loss(batch))


def peak_of_step(arm: str, dtype: Dtype, size: tuple[int, int]) -> int:
    """Return the bytes that a step takes beside the weights and the batch."""
    torch.set_num_threads(1)
    return measured.peak_of_step(step_of(arm, dtype, size))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_language_model_step(benchmark: Any, timed: Any, dtype: Dtype, threads: int) -> None:
    """``ratios``: our step over two forwards, rounded and exact; published over ours; the noise."""
    torch.set_num_threads(threads)
    size = (BATCH, CONTEXT) if benchmark.enabled else ONCE
    names = ("forward", "mezo", "rounded", "noise", "published")
    if dtype == "float32":
        names = ("forward", "mezo", "noise", "published")  # rounded is what mezo is
    arms = {name: step_of(name, dtype, size) for name in names}
    seconds = timed(arms, turns=5 if benchmark.enabled else 1, steps=1, warm_up=1)
    found = {
        "mezo/two forwards": ratio(seconds, "mezo", "forward") / 2,
        "three perturbations/mezo": 3 * ratio(seconds, "noise", "mezo"),
        "published/mezo": ratio(seconds, "published", "mezo"),
    }
    if dtype != "float32":
        found["mezo rounded/two forwards"] = ratio(seconds, "rounded", "forward") / 2
        found["published/mezo rounded"] = ratio(seconds, "published", "rounded")
    benchmark.extra_info["ratios"] = found


@pytest.mark.memray
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("arm", ["forward", "mezo", "published"])
def test_memory_of_a_language_model_step(benchmark: Any, arm: str, dtype: str) -> None:
    """``peak_bytes``: what the step takes beside its weights, by memray."""
    size = (BATCH, CONTEXT) if benchmark.enabled else ONCE

    def run() -> None:
        command = [sys.executable, __file__, arm, dtype, *map(str, size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        benchmark.extra_info["peak_bytes"] = int(done.stdout)

    benchmark.pedantic(run, rounds=1)


if __name__ == "__main__":
    made = (int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(str(peak_of_step(sys.argv[1], sys.argv[2], made)))  # type: ignore[arg-type]
