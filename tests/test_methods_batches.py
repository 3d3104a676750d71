"""Micro-batches and processes: many small batches are one large batch, bit by bit."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import ReproError, UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.mezo import MeZO
from repro.methods.rademacher import RademacherNoise
from repro.methods.zeroth_order import ZerothOrder

ITEMS = 8


def integers(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, shape, generator=generator).double()


X, Y = integers(0, ITEMS, 6), integers(1, ITEMS)


def exact_model() -> nn.Sequential:
    """A linear network with integer weights; see ``exact_loss``."""
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 1)).double()
    for seed, parameter in enumerate(model.parameters()):
        parameter.data = integers(10 + seed, *parameter.shape)
    return model


def exact_loss(model: nn.Module, items: slice) -> Callable[[], torch.Tensor]:
    """Every number is a multiple of 2^-8 and small, so float64 makes no rounding error.

    Weights are moved by eps = 1/4 up or down; a batch has 1, 2, 4 or 8 items.
    """
    return lambda: (model(X[items])[:, 0] - Y[items]).square().sum() / len(X[items])


def exact_method(kind: str, model: nn.Module, **settings: Any) -> ZerothOrder:
    common = {"lr": 2.0**-16, "eps": 0.25, "noise": RademacherNoise(), **settings}
    if kind == "elasticzo":
        return ElasticZO(model, 1, **common)
    return (FZOO if kind == "fzoo" else MeZO)(model.parameters(), perturbations=2, **common)


def split(parts: int) -> list[slice]:
    size = ITEMS // parts
    return [slice(start, start + size) for start in range(0, ITEMS, size)]


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("kind", ["mezo", "elasticzo", "fzoo"])
def test_micro_batches_are_the_large_batch_in_exact_arithmetic(kind: str, parts: int) -> None:
    whole, cut = exact_model(), exact_model()
    one, other = exact_method(kind, whole), exact_method(kind, cut)
    one.step(exact_loss(whole, slice(0, ITEMS)))
    other.step([exact_loss(cut, items) for items in split(parts)])
    assert one.last is not None
    assert other.last is not None
    assert one.last.estimates == other.last.estimates
    assert one.last.loss == other.last.loss
    assert one.last.estimates[0].loss_plus != one.last.estimates[0].loss_minus
    assert all(map(torch.equal, whole.parameters(), cut.parameters()))
    assert one.log.data == other.log.data


def test_the_gradients_of_the_tail_are_averaged_and_full_bp_too() -> None:
    for partition in (0, 1):
        whole, cut = exact_model(), exact_model()
        one, other = (
            ElasticZO(m, partition, lr=0.5, eps=0.25, noise=RademacherNoise()) for m in (whole, cut)
        )
        one.step(exact_loss(whole, slice(0, ITEMS)))
        other.step([exact_loss(cut, items) for items in split(4)])
        assert all(map(torch.equal, whole[1].parameters(), cut[1].parameters()))
        assert not torch.equal(whole[1].weight, exact_model()[1].weight)


def test_no_micro_batch_is_refused() -> None:
    model = exact_model()
    with pytest.raises(UsageError, match=r"step\(\[\]\): give a closure"):
        exact_method("mezo", model).step([])


def inexact_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def inexact_loss(model: nn.Module, part: int, step: int) -> Callable[[], torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + part)
    x = torch.randn(5, 6, generator=generator)
    y = torch.randint(0, 3, (5,), generator=generator)
    return lambda: cross_entropy(model(x), y)


def inexact_method(kind: str, model: nn.Module, **settings: Any) -> ZerothOrder:
    common = {"lr": 1e-2, "eps": 1e-3, **settings}
    if kind == "elasticzo":
        return ElasticZO(model, "2", **common)
    return (FZOO if kind == "fzoo" else MeZO)(model.parameters(), perturbations=2, **common)


KINDS = ("mezo", "elasticzo", "fzoo", "full_bp")


def in_a_process(rank: int, results: Any) -> None:
    """Train each kind as one of two processes; then fail in the ways that both must see."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{results}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    group = dist.group.WORLD
    found: dict[str, Any] = {}
    for kind in KINDS:
        model = inexact_model()
        if rank:  # other weights, which the first process's replace
            for parameter in model.parameters():
                parameter.data.zero_()
        if kind == "full_bp":
            method: ZerothOrder = ElasticZO(model, 0, lr=1e-2, eps=1e-3, group=group)
        else:
            method = inexact_method(kind, model, group=group)
        for step in range(3):
            method.step(inexact_loss(model, rank, step))
        assert method.last is not None
        weights = [parameter.detach() for parameter in model.parameters()]
        found[kind] = (weights, list(method.log.data), method.last.loss)
    exact = exact_model()
    exact_method("mezo", exact, group=group).step(exact_loss(exact, split(2)[rank]))
    found["exact"] = [parameter.detach() for parameter in exact.parameters()]
    model = inexact_model()
    try:
        inexact_method("mezo", model, group=group, seed=rank).step(lambda: 1.0)
    except UsageError as error:
        found["seeds"] = str(error)
    try:
        inexact_method("mezo", model, group=group).step(lambda: float("nan") if rank else 1.0)
    except ReproError as error:
        found["nan"] = str(error)
    found["repr"] = repr(method)
    torch.save(found, f"{results}/{rank}.pt")
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the interpreter, which then aborts


def test_two_processes_are_one_bit_by_bit(tmp_path: Any) -> None:
    """Each process has half of the micro-batches, and sums are rounded as ever."""
    with torch.random.fork_rng():
        mp.spawn(in_a_process, (str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for kind in KINDS:
        model = inexact_model()
        if kind == "full_bp":
            method: ZerothOrder = ElasticZO(model, 0, lr=1e-2, eps=1e-3)
        else:
            method = inexact_method(kind, model)
        for step in range(3):
            method.step([inexact_loss(model, part, step) for part in range(2)])
        assert method.last is not None
        for weights, log, loss in (first[kind], second[kind]):
            assert all(map(torch.equal, weights, model.parameters())), kind
            assert log == list(method.log.data)
            assert loss == method.last.loss
    exact = exact_model()
    exact_method("mezo", exact).step(exact_loss(exact, slice(0, ITEMS)))
    assert all(map(torch.equal, first["exact"], exact.parameters()))
    assert first["seeds"] == second["seeds"]
    assert "in 2 processes: they must be the same" in first["seeds"]
    assert "l+ with perturbation seed" in first["nan"]
    assert first["nan"] == second["nan"]
    assert "group='2 processes'" in first["repr"]
