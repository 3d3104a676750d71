"""The methods as optimizers of torch: schedules, state, closures; and the guide's examples."""

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import lr_scheduler

from repro.core.errors import UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.mezo import MeZO
from repro.methods.zeroth_order import ZerothOrder

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs/methods.md"
LR = 1e-2
Make = Callable[..., ZerothOrder]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def loss_of(model: nn.Module) -> Callable[[], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, 4, generator=generator)
    y = torch.randint(0, 3, (16,), generator=generator)
    return lambda: cross_entropy(model(x), y)


def mezo(model: nn.Module, seed: int = 0) -> ZerothOrder:
    return MeZO(model.parameters(), lr=LR, eps=1e-3, seed=seed)


def elasticzo(model: nn.Module, seed: int = 0) -> ZerothOrder:
    return ElasticZO(model, "2", lr=LR, eps=1e-3, seed=seed)


BOTH = pytest.mark.parametrize("make", [mezo, elasticzo])


def test_the_guides_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 11
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)  # noqa: S102 - our own documentation
    accuracies = {name: value for name, value in names.items() if name.endswith("_accuracy")}
    assert len(accuracies) == 9
    for name, value in accuracies.items():
        assert value > (0.8 if name.startswith(("sparse", "quantised")) else 0.9), name


@BOTH
@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, gamma=0.8), [1, 1, 0.8, 0.8]),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: step / 4), [0, 0.25, 0.5, 0.75]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 3), [1, 0.75, 0.25, 0]),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=2), [0.5, 0.75, 1, 1]),
    ],
)
def test_schedules_of_torch_set_the_rate_of_each_step(
    make: Make, schedule: Callable[[ZerothOrder], Any], rates: list[float]
) -> None:
    model = network()
    optimizer = make(model)
    scheduler = schedule(optimizer)
    for _ in rates:
        optimizer.step(loss_of(model))
        scheduler.step()
    logged = [entry.lr for entry in optimizer.log.entries]
    assert logged == pytest.approx([rate * LR for rate in rates], abs=1e-12)


@BOTH
def test_a_rate_of_zero_changes_nothing(make: Make) -> None:
    model = network()
    optimizer = make(model)
    optimizer.param_groups[0]["lr"] = 0.0
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step(loss_of(model))
    for parameter, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-7)


@BOTH
def test_the_plateau_schedule_works(make: Make) -> None:
    model = network()
    optimizer = make(model)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for _ in range(3):
        optimizer.step(loss_of(model))
        scheduler.step(1.0)
    assert [entry.lr for entry in optimizer.log.entries] == [LR, LR, LR / 2]


@BOTH
@pytest.mark.parametrize("rate", [-1e-3, math.nan, math.inf])
def test_a_schedule_gone_wrong_is_stopped_before_a_weight_moves(make: Make, rate: float) -> None:
    model = network()
    optimizer = make(model)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.param_groups[0]["lr"] = rate
    with pytest.raises(UsageError, match=r"learning rate lr = .*: must be a finite number"):
        optimizer.step(loss_of(model))
    for parameter, expected in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, expected)


@BOTH
def test_state_survives_a_file_that_is_loaded_safely(make: Make) -> None:
    whole, halves = network(), network()
    one, first = make(whole), make(halves)
    for _ in range(4):
        one.step(loss_of(whole))
    for _ in range(2):
        first.step(loss_of(halves))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = make(halves, seed=99)
    second.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        second.step(loss_of(halves))
    assert second.log.data == one.log.data
    for a, b in zip(whole.parameters(), halves.parameters(), strict=True):
        assert torch.equal(a, b)


@BOTH
def test_a_step_needs_a_closure(make: Make) -> None:
    with pytest.raises(TypeError, match="closure"):
        make(network()).step()  # type: ignore[call-arg]


def error_rate(model: nn.Module) -> Callable[[], float]:
    x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    return lambda: float((model(x).argmax(1) != y).float().mean())


def test_the_error_rate_falls_though_it_has_no_gradient() -> None:
    model = network()
    errors = error_rate(model)
    before = errors()
    mezo = MeZO(model.parameters(), lr=0.05, eps=0.1, perturbations=4)
    for _ in range(60):
        mezo.step(errors)
    assert errors() < 0.2 < before


@pytest.mark.parametrize("partition", [0, 2])
@pytest.mark.parametrize("detached", [False, True])
def test_a_tail_cannot_be_trained_on_a_loss_without_gradient(
    partition: int, detached: bool
) -> None:
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    elastic = ElasticZO(model, partition, lr=LR, eps=1e-3, restore="exact")
    loss = (lambda: loss_of(model)().detach()) if detached else error_rate(model)
    with pytest.raises(UsageError, match=r"the loss has no gradient.*or use MeZO"):
        elastic.step(loss)
    for parameter, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-8)


def test_no_loss_needs_a_gradient_if_there_is_no_tail() -> None:
    model = network()
    elastic = ElasticZO(model, 3, lr=LR, eps=0.1)
    elastic.step(error_rate(model))
    assert len(elastic.log.entries) == 1
