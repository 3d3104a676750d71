"""ElasticZO between its two ends: MeZO and backpropagation."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import ReproError, UsageError
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import Activations, ElasticZO
from repro.methods.mezo import MeZO
from repro.methods.parameters import split_at
from repro.methods.torch_noise import perturb_
from repro.models.lenet5 import lenet5

EPS, LR = 1e-2, 2e-3


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(8, 1, 28, 28, generator=generator)
    return images, torch.randint(0, 10, (8,), generator=generator)


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return lenet5()


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def train(model: nn.Module, method: Any, steps: int = 3) -> None:
    for step in range(steps):
        images, labels = batch(step)
        method.step(lambda: cross_entropy(model(images), labels))  # noqa: B023


def test_empty_tail_is_mezo_bit_by_bit() -> None:
    one, other = network(), network()
    train(one, ElasticZO(one, 12, lr=LR, eps=EPS, seed=5))
    train(other, MeZO(other.parameters(), lr=LR, eps=EPS, seed=5))
    assert same_weights(one, other)


def test_everything_in_the_tail_is_backpropagation_bit_by_bit() -> None:
    one, other = network(), network()
    train(one, ElasticZO(one, 0, lr=0.1, eps=EPS))
    train(other, Backprop(other.parameters(), lr=0.1))
    assert same_weights(one, other)


@pytest.mark.parametrize("activations", ["plus", "minus", "mean"])
def test_tail_follows_autograd_at_the_perturbed_weights(activations: Activations) -> None:
    model = network()
    start = copy.deepcopy(model)
    images, labels = batch()
    elastic = ElasticZO(model, "fc2", lr=LR, eps=EPS, activations=activations)
    elastic.step(lambda: cross_entropy(model(images), labels))
    assert elastic.last is not None
    (estimate,) = elastic.last.estimates

    expected = [torch.zeros_like(p) for p in [*start.fc2.parameters(), *start.fc3.parameters()]]
    for name, scale in (("plus", EPS), ("minus", -EPS)):
        weight = {"plus": name == "plus", "minus": name == "minus", "mean": 0.5}[activations]
        moved = copy.deepcopy(start)
        head = [p for n, p in moved.named_parameters() if not n.startswith(("fc2", "fc3"))]
        perturb_(head, estimate.seed, scale)
        loss = cross_entropy(moved(images), labels)
        loss.backward()
        seen = estimate.loss_plus if name == "plus" else estimate.loss_minus
        assert loss.item() == pytest.approx(seen, rel=1e-5)
        perturbed = [*moved.fc2.parameters(), *moved.fc3.parameters()]
        for total, p in zip(expected, perturbed, strict=True):
            total += float(weight) * p.grad
    tail = [*model.fc2.parameters(), *model.fc3.parameters()]
    before = [*start.fc2.parameters(), *start.fc3.parameters()]
    for p, p0, gradient in zip(tail, before, expected, strict=True):
        torch.testing.assert_close(p, p0 - LR * gradient, rtol=1e-5, atol=1e-7)


def test_head_follows_the_estimate() -> None:
    model = network()
    start = copy.deepcopy(model)
    images, labels = batch()
    elastic = ElasticZO(model, "fc3", lr=LR, eps=EPS, clip=0.3)
    elastic.step(lambda: cross_entropy(model(images), labels))
    assert elastic.last is not None
    (estimate,) = elastic.last.estimates
    assert abs(estimate.projected_gradient) <= 0.3
    head, _ = split_at(start, "fc3")
    with torch.no_grad():
        perturb_(head, estimate.seed, -LR * estimate.projected_gradient)
    trained, _ = split_at(model, "fc3")
    for p, expected in zip(trained, head, strict=True):
        torch.testing.assert_close(p, expected, rtol=0, atol=1e-7)


def test_no_graph_is_kept_of_the_zeroth_order_part() -> None:
    model = network()
    saved: list[tuple[int, ...]] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tuple(tensor.shape))
        return tensor

    images, labels = batch()
    elastic = ElasticZO(model, "fc3", lr=LR, eps=EPS)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        elastic.step(lambda: cross_entropy(model(images), labels))
    assert saved
    assert all(len(shape) <= 2 and shape[-1:] in ((84,), (10,), (8,), ()) for shape in saved), saved


@pytest.mark.parametrize("partition", ["fc3", "fc2"])
def test_memory_parameters_of_the_published_partitions(partition: str) -> None:
    head, tail = split_at(network(), partition)
    sizes = {"fc3": (106_936, 850), "fc2": (96_772, 11_014)}[partition]
    assert (sum(p.numel() for p in head), sum(p.numel() for p in tail)) == sizes


def test_flags_and_gradients_are_as_before_after_a_step_and_after_an_error() -> None:
    model = network()
    start = copy.deepcopy(model)
    images, labels = batch()
    elastic = ElasticZO(model, "fc3", lr=LR, eps=EPS)

    def fails() -> torch.Tensor:
        return cross_entropy(model(images), labels) * math.nan

    with pytest.raises(ReproError, match=r"l\+ with perturbation seed \d+ = nan"):
        elastic.step(fails)
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    for p, p0 in zip(model.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(p, p0, rtol=0, atol=4e-8)
    elastic.step(lambda: cross_entropy(model(images), labels))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_a_learning_rate_schedule_reaches_both_parts() -> None:
    model = network()
    elastic = ElasticZO(model, "fc3", lr=LR, eps=EPS)
    schedule = torch.optim.lr_scheduler.StepLR(elastic, step_size=1, gamma=0.8)
    train(model, elastic, steps=1)
    schedule.step()
    train(model, elastic, steps=1)
    assert [entry.lr for entry in elastic.log.entries] == [LR, LR * 0.8]


def test_phases_are_timed_only_if_asked_for() -> None:
    model = network()
    silent = ElasticZO(model, "fc3", lr=LR, eps=EPS)
    train(model, silent, steps=1)
    assert silent.last is not None
    assert silent.last.seconds == {}
    timed = ElasticZO(model, "fc3", lr=LR, eps=EPS, timed=True)
    train(model, timed, steps=1)
    assert timed.last is not None
    assert set(timed.last.seconds) == {"perturb", "forward", "backward", "update"}
    assert all(seconds > 0 for seconds in timed.last.seconds.values())


@pytest.mark.parametrize(
    ("partition", "changes", "message"),
    [
        ("fc9", {}, "names no layer; did you mean fc.* There are: conv1, conv2"),
        (13, {}, "= 13: must be a whole number from 0 to 12"),
        (-1, {}, "= -1: must be a whole number"),
        ("fc3", {"lr": -0.1}, "learning rate lr = -0.1"),
        ("fc3", {"eps": math.inf}, "perturbation scale eps = inf"),
        ("fc3", {"clip": 0.0}, "gradient clip g_clip = 0.0"),
        ("fc3", {"activations": "both"}, "activations = 'both': must be one of plus, minus, mean"),
    ],
)
def test_wrong_settings_are_refused(
    partition: str | int, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ElasticZO(network(), partition, **{"lr": LR, "eps": EPS, **changes})


def test_a_frozen_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no parameter to train"):
        ElasticZO(network().requires_grad_(requires_grad=False), "fc3", lr=LR, eps=EPS)
