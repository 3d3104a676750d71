"""Our MeZO on a language model against the published loop, given the same noise."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.data.text.tokens import load_tokenised
from repro.finetuning.batches import Batch, collate
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.published_loop import PublishedLoop
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.torch_noise import TorchNoise
from repro.models.tiny import tiny_llama
from repro.models.training_mode import without_dropout
from repro.ondevice.noise import EngineNoise, EngineSigns

pytestmark = pytest.mark.usefixtures("kept_prompts")

LR, EPS = 1e-3, 1e-3


class LoopAlong(PublishedLoop):
    """The loop with the given noise instead of the global generator's."""

    noise: Noise

    def drawn(self, seed: int) -> Iterator[tuple[Any, Tensor]]:
        parameters = list(self.model.parameters())
        drawn = [torch.zeros_like(parameter) for parameter in parameters]
        self.noise.add_(drawn, seed, 1.0)
        yield from zip(parameters, drawn, strict=True)


def batches(count: int) -> tuple[list[Batch], list[int]]:
    split = load_tokenised("yesno-facts", "train", tiny_llama().tokenizer)
    made = [collate(split, range(4 * n, 4 * n + 4), 48) for n in range(count)]
    return made, split.answers.tolist()


def test_losses_of_full_logits_and_of_the_last_position_are_the_same() -> None:
    (batch,), answers = batches(1)
    model = tiny_llama().model
    ours = AnswerClassifier(model, answers).loss(batch)
    theirs = PublishedLoop(model, answers, LR, EPS).loss(batch)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("make", [TorchNoise, EngineNoise, EngineSigns])
def test_trajectories_are_the_same_given_the_same_noise(make: Callable[[], Noise]) -> None:
    made, answers = batches(40)
    ours, theirs = tiny_llama().model, tiny_llama().model
    without_dropout(ours)
    classifier = AnswerClassifier(ours, answers)
    mezo = MeZO(ours.parameters(), lr=LR, eps=EPS, seed=5, noise=make())
    loop = LoopAlong(theirs, answers, LR, EPS)
    loop.noise = make()
    for batch in made:
        loss = mezo.step(lambda batch=batch: classifier.loss(batch))
        assert mezo.log.last is not None
        assert loop.step(batch, mezo.log.last.seed) == pytest.approx(loss, abs=2e-5)
    before = torch.cat([p.detach().flatten() for p in tiny_llama().model.parameters()])
    moved = [torch.cat([p.detach().flatten() for p in m.parameters()]) for m in (ours, theirs)]
    apart = (moved[0] - moved[1]).norm() / (moved[0] - before).norm()
    assert apart < 0.02  # of the way they went; g divides float32's roundings by 2 eps
