"""The schedule, the learner's protocol, and that all methods do learn."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from repro.core.errors import UsageError
from repro.core.names import ShiftVersion, SignRule
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.schedule import PAPER, Phase, Schedule
from repro.integer.tensor import IntegerTensor
from repro.models.lenet5 import lenet5
from repro.training.learners import IntegerLearner

EXPONENT = -5


def stripes(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images with a bright bar whose place is the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    images = torch.randint(-14, 20, (samples, 1, 28, 28), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 4 + 2 * label : 6 + 2 * label] = 85
    return images.to(torch.int8), labels


def learner(
    partition: str | int, epochs: int = 100, sign: SignRule = "float", policy: ShiftVersion = "v2"
) -> IntegerLearner:
    network = IntegerNetwork.random(lenet5(bias=False), seed=0, policy=policy)
    return IntegerLearner(ElasticZOInt8(network, partition, sign=sign), EXPONENT, Schedule(epochs))


def accuracy(trained: IntegerLearner) -> float:
    _, correct = trained.evaluate(stripes(500, seed=1))
    return correct / 500


@pytest.mark.parametrize(
    ("epochs", "starts"), [(100, (0, 20, 50)), (10, (0, 2, 5)), (200, (0, 40, 100)), (1, (0, 1, 1))]
)
def test_schedule_is_the_papers_at_any_length(epochs: int, starts: tuple[int, ...]) -> None:
    schedule = Schedule(epochs)
    for epoch in range(epochs):
        phase = schedule.at(epoch)
        assert phase == PAPER[sum(epoch >= start for start in starts) - 1]
    assert [(p.b_bp, p.p_zero) for p in PAPER] == [(5, 0.33), (4, 0.5), (3, 0.9)]


def test_start_epoch_sets_bits_and_sparsity() -> None:
    trained = learner("fc3", epochs=10)
    trained.start_epoch(4)
    assert (trained.method.b_bp, trained.method.p_zero) == (4, 0.5)
    trained.start_epoch(9)
    assert (trained.method.b_bp, trained.method.p_zero) == (3, 0.9)
    with pytest.raises(UsageError, match="epochs = 0"):
        Schedule(0)


def test_sparsity_can_be_held() -> None:
    held = Schedule(100, tuple(Phase(p.start, p.b_bp, 0.33) for p in PAPER))
    assert {held.at(epoch).p_zero for epoch in range(100)} == {0.33}


def test_evaluation_is_pytorchs_on_the_dequantised_logits() -> None:
    trained = learner(12)
    images, labels = stripes(50, seed=2)
    logits = trained.method.network.forward(IntegerTensor(images, EXPONENT))
    x = logits.values.double() * 2.0**logits.exponent
    loss, correct = trained.evaluate((images, labels))
    assert loss == pytest.approx(float(cross_entropy(x, labels, reduction="sum")))
    assert correct == int((x.argmax(1) == labels).sum())


@pytest.mark.parametrize("policy", ["v1", "v2"])
@pytest.mark.parametrize("partition", [0, "fc2"])
def test_it_learns(partition: str | int, policy: ShiftVersion) -> None:
    trained = learner(partition, sign="integer", policy=policy)
    trained.start_epoch(0)
    losses = [trained.step(stripes(64, seed=10 + n)).loss for n in range(60)]
    assert sum(losses[-10:]) < sum(losses[:10]) / 2
    assert accuracy(trained) > (0.95 if partition == 0 else 0.8)


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["float", "integer", "exact"])
def test_it_learns_by_forward_passes_alone(sign: SignRule) -> None:
    trained = learner(12, sign=sign)
    trained.start_epoch(0)
    for n in range(500):
        trained.step(stripes(64, seed=10 + n))
    assert accuracy(trained) > 0.2  # chance is 0.1, with a deviation of 0.013 on 500 images


def test_the_example_in_the_documentation_runs() -> None:
    text = (Path(__file__).parents[1] / "docs" / "integer.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    values, labels = stripes(300, seed=0)
    names = {"images": values.float() / 32, "labels": labels}
    exec(code, names)  # noqa: S102
    assert names["elastic"].steps == 2
