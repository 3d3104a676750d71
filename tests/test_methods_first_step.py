"""What a first step refuses or warns about, and what dropout does to an estimate."""

import copy
import re
import statistics
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout

from repro.core.errors import UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.mezo import MeZO
from repro.methods.parameters import split_at
from repro.methods.watch import PassesDifferWarning
from repro.methods.zeroth_order import ZerothOrder

LR, EPS = 1e-3, 1e-3


class HeadFirst(nn.Module):
    """A network that registers its last layer first."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 2)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(16, 4, generator=generator), torch.arange(16) % 2


def loss_of(model: nn.Module) -> Callable[[], torch.Tensor]:
    x, y = batch()
    return lambda: cross_entropy(model(x), y)


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_tail_that_takes_every_parameter_is_refused() -> None:
    with pytest.raises(UsageError, match=r"partition 'head' leaves no parameter .*give trace="):
        ElasticZO(HeadFirst(), "head", lr=LR, eps=EPS)


def test_frozen_layers_before_the_partition_leave_nothing_to_zeroth_order() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    model[0].requires_grad_(requires_grad=False)
    with pytest.raises(UsageError, match="partition 1 leaves no parameter to zeroth order"):
        ElasticZO(model, 1, lr=LR, eps=EPS)


def test_layers_that_run_in_another_order_are_refused_before_a_weight_changes() -> None:
    torch.manual_seed(0)
    model = HeadFirst()
    before = weights(model)
    elastic = ElasticZO(model, "body", lr=LR, eps=EPS, restore="exact")
    for _ in range(2):  # it is not forgotten
        with pytest.raises(UsageError, match=r"body\.0\.weight is backpropagated but .*head\.\w+"):
            elastic.step(loss_of(model))
    for parameter, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-8)
    assert not elastic.log.data


@pytest.mark.parametrize(
    ("partition", "tail"), [("head", {"head"}), ("body.2", {"head", "body.2"}), (1, {"head"})]
)
def test_the_order_of_a_traced_pass_decides(partition: str | int, tail: set[str]) -> None:
    torch.manual_seed(0)
    model = HeadFirst()
    names = {id(p): name.rpartition(".")[0] for name, p in model.named_parameters()}
    x, _ = batch()
    elastic = ElasticZO(model, partition, lr=LR, eps=EPS, trace=lambda: model(x))
    assert {names[id(p)] for p in elastic.bp_params} == tail
    assert {names[id(p)] for p in elastic.zo_params} == set(names.values()) - tail
    elastic.step(loss_of(model))
    assert elastic.log.steps == 1


def test_a_trace_of_a_network_in_order_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x, _ = batch()
    for partition in (0, 1, 2, 3, "2"):
        plain = split_at(model, partition)
        state = torch.random.get_rng_state()
        elastic = ElasticZO(model, partition, lr=LR, eps=EPS, trace=lambda: model(x))
        assert torch.equal(torch.random.get_rng_state(), state)
        assert [list(map(id, part)) for part in plain] == [
            list(map(id, part)) for part in (elastic.zo_params, elastic.bp_params)
        ]


def test_weights_that_a_function_takes_are_seen_in_their_order() -> None:
    """``out_proj`` of attention is never called: its weights go to a function."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    model = nn.Sequential(OrderedDict(last=nn.Linear(4, 2), attention=attention))
    x = torch.randn(3, 5, 4)

    def loss() -> torch.Tensor:
        return model.last(attention(x, x, x, need_weights=False)[0]).square().mean()  # type: ignore[operator,no-any-return]

    with pytest.raises(UsageError, match=r"attention\.\w+ is backpropagated .* before last"):
        ElasticZO(model, "attention", lr=LR, eps=EPS).step(loss)
    elastic = ElasticZO(model, "last", lr=LR, eps=EPS, trace=loss)
    assert len(elastic.zo_params) == 4
    elastic.step(loss)


def with_dropout(rate: float = 0.5) -> nn.Module:
    torch.manual_seed(0)
    layers = {"fc1": nn.Linear(4, 64), "drop": nn.Dropout(rate), "fc2": nn.Linear(64, 2)}
    return nn.Sequential(OrderedDict(layers))


def spread(model: nn.Module) -> float:
    optimizer = MeZO(model.parameters(), lr=1e-12, eps=EPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PassesDifferWarning)
        for _ in range(100):
            optimizer.step(loss_of(model))
    return statistics.stdev(entry.gradient for entry in optimizer.log.entries)


def test_dropout_masks_are_the_same_in_both_passes() -> None:
    """With masks of their own the spread is that of the loss over 2 eps, hundreds of times it."""
    assert spread(with_dropout().train()) < 3 * spread(with_dropout().eval())


def test_the_estimate_under_dropout_is_that_of_the_masked_network() -> None:
    masks: list[torch.Tensor] = []
    model = with_dropout().double()
    x, y = batch()

    def loss() -> torch.Tensor:
        hidden = model.fc1(x.double())  # type: ignore[operator]
        masks.append(dropout(torch.ones_like(hidden)))
        return cross_entropy(model.fc2(hidden * masks[-1]), y)  # type: ignore[operator]

    optimizer = MeZO(model.parameters(), lr=LR, eps=EPS, perturbations=2)
    with pytest.warns(PassesDifferWarning, match="by the closure"):
        optimizer.step(loss)
    optimizer.step(loss)
    assert all(torch.equal(mask, masks[0]) for mask in masks[:4])
    assert not torch.equal(masks[4], masks[0])  # the next step has a mask of its own
    assert all(torch.equal(mask, masks[4]) for mask in masks[4:])


def mezo(model: nn.Module) -> ZerothOrder:
    return MeZO(model.parameters(), lr=LR, eps=EPS)


def elasticzo(model: nn.Module) -> ZerothOrder:
    return ElasticZO(model, "fc2", lr=LR, eps=EPS)


BOTH = pytest.mark.parametrize("make", [mezo, elasticzo])


@BOTH
def test_dropout_in_training_mode_is_named_once(make: Callable[[nn.Module], ZerothOrder]) -> None:
    model = with_dropout()
    optimizer = make(model)
    with pytest.warns(PassesDifferWarning, match=r"forward pass by drop \(Dropout\)\. All passes"):
        optimizer.step(loss_of(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step(loss_of(model))


@BOTH
def test_evaluation_mode_is_silent(make: Callable[[nn.Module], ZerothOrder]) -> None:
    model = with_dropout().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(model).step(loss_of(model))


def test_the_innermost_module_that_draws_is_named() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return dropout(self.fc(x), training=self.training)

    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict(block=Block(), fc=nn.Linear(4, 2)))
    with pytest.warns(PassesDifferWarning, match=r"by block \(Block\)\. All"):
        MeZO(model.parameters(), lr=LR, eps=EPS).step(loss_of(model))


def test_batch_norm_in_training_mode_is_named_and_still_updates() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict(norm=nn.BatchNorm1d(4), fc=nn.Linear(4, 2)))
    optimizer = MeZO(model.parameters(), lr=LR, eps=EPS)
    with pytest.warns(PassesDifferWarning, match=r"the buffers of norm \(BatchNorm1d\), "):
        optimizer.step(loss_of(model))
    assert int(model.norm.num_batches_tracked) == 2  # type: ignore[union-attr,arg-type]


def test_many_layers_are_counted() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4), *(nn.Dropout() for _ in range(5)), nn.Linear(4, 2)]
    model = nn.Sequential(*layers)
    names = r"1 \(Dropout\), 2 \(Dropout\), 3 \(Dropout\) and 2 more\."
    with pytest.warns(PassesDifferWarning, match=names):
        MeZO(model.parameters(), lr=LR, eps=EPS).step(loss_of(model))


def test_watching_the_first_step_changes_no_number() -> None:
    watched, plain = with_dropout().eval(), with_dropout().eval()
    one, other = elasticzo(watched), elasticzo(plain)
    other._first = None
    for _ in range(3):
        one.step(loss_of(watched))
        other.step(loss_of(plain))
    assert same(watched.parameters(), plain.parameters())
    assert one.log.data == other.log.data


@pytest.mark.parametrize("partition", [None, "fc2", 0])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_closure_that_calls_backward_gets_a_sentence(
    partition: str | int | None, enabled: bool
) -> None:
    model = with_dropout().eval()
    before, compute = weights(model), loss_of(model)
    if partition is None:
        optimizer = MeZO(model.parameters(), lr=LR, eps=EPS, restore="exact")
        before = weights(model)
    else:
        optimizer = ElasticZO(model, partition, lr=LR, eps=EPS)  # type: ignore[assignment]

    def closure() -> torch.Tensor:
        with torch.set_grad_enabled(enabled or torch.is_grad_enabled()):
            loss = compute()
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with pytest.raises(UsageError, match=r"the closure calls backward\(\).* return the loss"):
        optimizer.step(closure)
    assert all(parameter.grad is None for parameter in model.parameters())
    for parameter, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-7)
    optimizer.step(compute)


def test_a_failed_first_step_is_watched_again() -> None:
    model = with_dropout()
    optimizer = mezo(model)
    fails = True

    def loss() -> torch.Tensor:
        if fails:
            raise RuntimeError
        return loss_of(model)()

    with pytest.raises(RuntimeError):
        optimizer.step(loss)
    fails = False
    with pytest.warns(PassesDifferWarning, match=re.escape("drop (Dropout)")):
        optimizer.step(loss)
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_compiled_model_is_watched_without_harm() -> None:
    plain = with_dropout().eval()
    compiled = copy.deepcopy(plain)
    call = torch.compile(compiled, backend="eager")
    x, y = batch()
    one, other = mezo(plain), mezo(compiled)
    for _ in range(3):
        one.step(loss_of(plain))
        other.step(lambda: cross_entropy(call(x), y))
    assert same(plain.parameters(), compiled.parameters())
