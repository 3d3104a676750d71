"""Uses of the methods that are unusual but plausible: none may go wrong without a word."""

import copy
import functools
import math
import pickle
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from repro.core.errors import ReproError, UsageError
from repro.integer.network import IntegerNetwork
from repro.memory.layers import layer_table
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.log import StepLog, replay
from repro.methods.low_rank import LowRankNoise
from repro.methods.meazo import MEAZO
from repro.methods.mezo import MeZO
from repro.methods.noise import CPU_CHUNK
from repro.methods.rademacher import RademacherNoise
from repro.methods.rules import by_spread, sgd
from repro.methods.sparse import SparseNoise, thresholds_of
from repro.methods.step_info import DivergedError
from repro.methods.subspace import SubspaceNoise
from repro.methods.torch_noise import TorchNoise
from repro.ondevice.low_rank import EngineLowRankNoise, EngineSubspaceNoise
from repro.ondevice.noise import EngineNoise, EngineSigns, TorchNoiseOnEngine

INPUTS = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))


def loss_of(model: nn.Module) -> Callable[[], torch.Tensor]:
    return lambda: model(INPUTS).square().mean()


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trained(steps: int = 3, **settings: Any) -> tuple[nn.Sequential, MeZO]:
    model = network()
    mezo = MeZO(model.parameters(), **{"lr": 0.01, "eps": 1e-3, **settings})
    for _ in range(steps):
        mezo.step(loss_of(model))
    return model, mezo


def perturbation(noise: Any, elements: int, restore: Any, chunk: int | None = None) -> torch.Tensor:
    """Return eps z of a first pass, as the closure sees it."""
    seen: list[torch.Tensor] = []
    parameter = nn.Parameter(torch.zeros(elements))
    mezo = MeZO([parameter], lr=1e-9, eps=1e-3, noise=noise, restore=restore, chunk=chunk)

    def closure() -> float:
        seen.append(parameter.detach().clone())
        return 0.0

    mezo.step(closure)
    return seen[0]


PART, PIECES = 1 << 14, 24


@pytest.mark.parametrize(
    ("noise", "restore", "chunk"),
    [
        (TorchNoise(PART), "exact", None),
        (TorchNoise(), "exact", 2 * CPU_CHUNK),
        (RademacherNoise(), "exact", 2 * CPU_CHUNK),
        (SparseNoise([1.0], TorchNoise(PART)), "rounded", None),
        (SparseNoise([1.0], TorchNoise(PART)), "exact", None),
        (LowRankNoise(2), "rounded", None),
        (LowRankNoise(2), "exact", None),
        (SubspaceNoise(2), "rounded", None),
    ],
)
def test_no_two_weights_share_their_noise(noise: Any, restore: Any, chunk: int | None) -> None:
    pieces = perturbation(noise, PART * PIECES, restore, chunk).view(PIECES, PART)
    apart = torch.corrcoef(pieces) - torch.eye(PIECES)
    assert apart.abs().max() < 6 / PART**0.5  # six standard deviations of independent numbers


def test_noise_and_method_agree_on_the_chunk_and_the_log_holds_it() -> None:
    model, mezo = trained(noise=TorchNoise(chunk=8))
    assert mezo.log.chunk == 8
    again = network()
    replay(mezo.log, list(again.parameters()))
    assert torch.equal(weights(again), weights(model))
    with pytest.raises(UsageError, match="chunk = 16 with a noise of chunk = 8"):
        trained(noise=TorchNoise(chunk=8), chunk=16)


class FailingNoise(TorchNoise):
    """Fails in the second tensor of a pass."""

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        super().add_(parameters[:1], seed, scale)
        raise torch.OutOfMemoryError


def test_failed_pass_says_that_the_weights_are_damaged_and_no_step_uses_them() -> None:
    model = network()
    mezo = MeZO(model.parameters(), lr=0.01, eps=1e-3, noise=FailingNoise())
    with pytest.raises(torch.OutOfMemoryError) as caught:
        mezo.step(loss_of(model))
    assert "Load the model's weights again" in caught.value.__notes__[0]
    with pytest.raises(ReproError, match="Load the model's weights again"):
        mezo.step(loss_of(model))


@pytest.mark.parametrize("change", [lambda m: m.to(torch.bfloat16), lambda m: m.double()])
def test_model_converted_after_the_optimizer_was_made_is_refused(change: Any) -> None:
    model, mezo = trained(1)
    change(model)
    with pytest.raises(UsageError, match="convert the model first"):
        mezo.step(loss_of(model))


def test_weights_that_are_no_longer_contiguous_are_refused_before_any_moves() -> None:
    first, second = nn.Parameter(torch.zeros(50)), nn.Parameter(torch.zeros(4, 3, 2, 2))
    mezo = MeZO([first, second], lr=0.01, eps=1e-3)
    second.data = second.data.to(memory_format=torch.channels_last)
    with pytest.raises(UsageError, match="no longer contiguous"):
        mezo.step(lambda: 0.0)
    assert not first.any()


def test_interrupt_in_the_update_leaves_meazo_with_the_moment_of_all_its_steps() -> None:
    class Interrupting(TorchNoise):
        calls = 0

        def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
            self.calls += 1
            if self.calls == 6:  # the second step's update
                signal.raise_signal(signal.SIGINT)
            super().add_(parameters, seed, scale)

    model, noise = network(), Interrupting()
    meazo = MEAZO(model.parameters(), lr=0.01, eps=1e-3, beta=0.9, noise=noise)
    meazo.step(loss_of(model))
    with pytest.raises(KeyboardInterrupt):
        meazo.step(loss_of(model))
    assert meazo.log.steps == 2

    whole = network()
    expected = MEAZO(whole.parameters(), lr=0.01, eps=1e-3, beta=0.9)
    for _ in range(2):
        expected.step(loss_of(whole))
    assert meazo.second_moment == expected.second_moment
    assert torch.equal(weights(model), weights(whole))


@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_default_number_format_of_pytorch_does_not_change_the_noise(
    dtype: torch.dtype, restore: Any
) -> None:
    model, mezo = trained(restore=restore)
    again = network()
    torch.set_default_dtype(dtype)
    try:
        replay(mezo.log, list(again.parameters()))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(weights(again), weights(model))


@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        *((kind, lambda: None) for kind in (MeZO, FZOO, MEAZO)),
        *(
            (MeZO, noise)
            for noise in (
                EngineNoise,
                EngineSigns,
                TorchNoiseOnEngine,
                EngineLowRankNoise,
                EngineSubspaceNoise,
            )
        ),
    ],
)
@pytest.mark.usefixtures("engine")
def test_copied_and_pickled_optimizers_go_on(kind: Any, noise: Callable[[], Any]) -> None:
    model = network()
    optimizer = kind(model.parameters(), lr=0.01, eps=1e-3, noise=noise())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # it wraps the optimizer's step
    optimizer.step(loss_of(model))
    schedule.step()
    copies = [
        copy.deepcopy((model, optimizer)),
        pickle.loads(pickle.dumps((model, optimizer))),  # noqa: S301
    ]
    optimizer.step(loss_of(model))
    for other, own in copies:
        own.step(loss_of(other))
        assert torch.equal(weights(other), weights(model))
        assert own.log.data == optimizer.log.data


@pytest.mark.usefixtures("engine")
def test_another_default_format_does_not_matter_to_pytorchs_noise_on_the_engine() -> None:
    theta = nn.Parameter(torch.randn(9, dtype=torch.bfloat16))
    mezo = MeZO([theta], lr=0.01, eps=1e-3, noise=TorchNoiseOnEngine())
    torch.set_default_dtype(torch.float64)
    try:
        mezo.step(lambda: float(theta.float().sum()))
    finally:
        torch.set_default_dtype(torch.float32)
    assert mezo.log.steps == 1


@pytest.mark.parametrize("number", [np.float32, torch.tensor])
def test_numbers_of_other_libraries_replay_bit_by_bit(number: Any) -> None:
    model, mezo = trained(lr=number(0.01), eps=float(np.float32(1e-3)))
    mezo.param_groups[0]["lr"] = number(0.003)
    mezo.step(loss_of(model))
    again = network()
    replay(mezo.log, list(again.parameters()))
    assert torch.equal(weights(again), weights(model))


def test_complex_weights_are_refused() -> None:
    with pytest.raises(UsageError, match="complex64"):
        MeZO([nn.Parameter(torch.zeros(2, dtype=torch.complex64))], lr=1.0, eps=1e-3)


def test_parameters_without_elements_are_left_out() -> None:
    empty, full = nn.Parameter(torch.zeros(0, 5)), nn.Parameter(torch.ones(3))
    mezo = MeZO([empty, full], lr=0.1, eps=1e-3)
    mezo.step(lambda: full.square().sum())
    assert [*map(id, mezo.zo_params)] == [id(full)]
    with pytest.raises(UsageError, match="no parameter to train"):
        MeZO([empty], lr=0.1, eps=1e-3)


def test_rule_that_needs_several_losses_is_refused_with_one() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        MeZO(network().parameters(), lr=0.1, eps=1e-3, rule=by_spread)


def test_states_of_other_methods_are_refused_and_change_nothing() -> None:
    model, mezo = trained(2)
    before = bytes(mezo.log.data)
    meazo = MEAZO(model.parameters(), lr=0.01, eps=1e-3)
    sgd_of_torch = torch.optim.SGD(model.parameters(), lr=0.01)
    for other in (meazo, sgd_of_torch):
        with pytest.raises(UsageError, match="load it into the method that wrote it"):
            mezo.load_state_dict(other.state_dict())
    fewer = MeZO([next(model.parameters())], lr=0.01, eps=1e-3)
    with pytest.raises(UsageError, match="elements = "):
        mezo.load_state_dict(fewer.state_dict())
    assert bytes(mezo.log.data) == before


def test_step_hooks_run_once_a_step() -> None:
    model = network()
    meazo, calls = MEAZO(model.parameters(), lr=0.01, eps=1e-3), []
    trained(1)
    meazo.register_step_post_hook(lambda *_: calls.append(None))
    meazo.step(loss_of(model))
    assert len(calls) == 1


def test_logs_are_saved_under_a_path_of_text(tmp_path: Path) -> None:
    _, mezo = trained()
    mezo.log.save(str(tmp_path / "run.json"))
    assert StepLog.load(str(tmp_path / "run.json")).data == mezo.log.data


def test_setting_that_is_no_number_is_named() -> None:
    with pytest.raises(UsageError, match="g_clip = None"):
        trained(clip=None)


def test_rule_without_a_name_is_shown() -> None:
    _, mezo = trained(1, rule=functools.partial(sgd))
    assert "partial" in repr(mezo)


def test_backpropagation_takes_any_layout() -> None:
    weight = nn.Parameter(torch.ones(4, 3, 2, 2).to(memory_format=torch.channels_last))
    Backprop([weight], lr=0.5).step(lambda: weight.sum())
    assert (weight == 0.5).all()


def test_a_weight_frozen_during_a_run_does_not_move() -> None:
    model = network()
    elastic = ElasticZO(model, "2", lr=0.01, eps=1e-3, weight_decay=0.5)
    elastic.step(loss_of(model))
    model[2].weight.requires_grad = False
    before = [parameter.clone() for parameter in model.parameters()]
    elastic.step(loss_of(model))
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    names = [name for name, _ in model.named_parameters()]
    assert dict(zip(names, moved, strict=True)) == {name: name != "2.weight" for name in names}
    model[0].weight.requires_grad = False
    with pytest.raises(UsageError, match="frozen after the optimizer was made"):
        elastic.step(loss_of(model))
    assert not model[0].weight.requires_grad


def test_frozen_layers_keep_their_place_in_a_trace() -> None:
    model = shared_relu(nn.ReLU)
    model[2].requires_grad_(requires_grad=False)
    registered = ElasticZO(model, "2", lr=0.01, eps=1e-3)
    traced = ElasticZO(model, "2", lr=0.01, eps=1e-3, trace=lambda: model(INPUTS))
    assert registered.bp_params
    assert [*map(id, traced.bp_params)] == [*map(id, registered.bp_params)]


def test_a_log_is_not_replayed_on_frozen_weights() -> None:
    model, fresh = network(), network()
    for one in (model, fresh):
        one[0].requires_grad_(requires_grad=False)
    mezo = MeZO(model.parameters(), lr=0.01, eps=1e-3)
    mezo.step(loss_of(model))
    before = [parameter.clone() for parameter in fresh.parameters()]
    with pytest.raises(UsageError, match="without frozen ones"):
        replay(mezo.log, [*fresh.parameters()])
    assert all(map(torch.equal, before, fresh.parameters()))


@pytest.mark.parametrize("chunk", [-5, 0, 1.5, True])
def test_a_chunk_that_is_no_number_of_elements_is_refused(chunk: Any) -> None:
    with pytest.raises(UsageError, match="chunk"):
        MeZO(network().parameters(), lr=0.01, eps=1e-3, chunk=chunk)
    with pytest.raises(UsageError, match="chunk"):
        TorchNoise(chunk)


def test_a_failed_step_of_backpropagation_leaves_no_gradients_to_the_next() -> None:
    models = network(), network()
    failed, clean = (Backprop(model.parameters(), lr=0.1) for model in models)
    loss_of(models[0])().backward()
    for model, backprop in zip(models, (failed, clean), strict=True):
        backprop.step(loss_of(model))
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))


def test_exact_weights_may_be_loaded_after_the_optimizer_was_made() -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64).bfloat16()
    mezo = MeZO(model.parameters(), lr=0.01, eps=1e-3)
    model.load_state_dict(nn.Linear(64, 64).bfloat16().state_dict())
    expected = [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]
    MeZO(expected, lr=0.01, eps=1e-3)  # which rounds them to the lattice
    assert not all(map(torch.equal, expected, model.parameters()))
    for _ in range(2):
        with pytest.raises(DivergedError):
            mezo.step(lambda: math.nan)
        assert all(map(torch.equal, expected, model.parameters()))


def test_a_subspace_lasts_as_long_in_every_parameter_group() -> None:
    number = 3
    model = network()
    groups = [{"params": [model[0].weight]}, {"params": [model[2].weight]}]
    seen: dict[int, set[int]] = {0: set(), 1: set()}
    mezo = MeZO(groups, lr=0.01, eps=1e-3, noise=LowRankNoise(1, subspace_steps=number))
    for weights in mezo._weights:
        for low in range(0, 1 << 16, 4099):
            seen[weights.number].add(weights._own((7 << 16) + low) >> 16)
    assert [len(found) for found in seen.values()] == [1, 1]
    assert seen[0] != seen[1]


def test_sparse_noise_refuses_noise_that_it_cannot_mask_and_skips_empty_parameters() -> None:
    for other in (LowRankNoise(), SparseNoise([0.1])):
        with pytest.raises(UsageError, match=f"dense = {type(other).__name__}"):
            SparseNoise([0.1], other)
    model = network()
    expected = thresholds_of(model.parameters(), 0.5)
    model.register_parameter("empty", nn.Parameter(torch.empty(0)))
    assert thresholds_of(model.parameters(), 0.5) == expected


def test_noise_on_every_weight_is_that_of_the_dense_source_in_its_chunks() -> None:
    sparse, dense = torch.zeros(70_001), torch.zeros(70_001)
    SparseNoise([math.inf], TorchNoise(4096)).add_([sparse], 7, 1.0)
    TorchNoise(4096).add_([dense], 7, 1.0)
    assert torch.equal(sparse, dense)


def test_inference_tensors_are_refused() -> None:
    with torch.inference_mode():
        model = network()
    with pytest.raises(UsageError, match="inference_mode"):
        MeZO(model.parameters(), lr=0.01, eps=1e-3)


def shared_relu(relu: Callable[[], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 7, bias=False), relu(), nn.Linear(7, 7, bias=False), relu(),
        nn.Linear(7, 2, bias=False),
    )  # fmt: skip


def test_a_module_used_twice_is_two_layers() -> None:
    one = nn.ReLU()
    twice, apart = shared_relu(lambda: one), shared_relu(nn.ReLU)
    networks = [IntegerNetwork.random(model, seed=0) for model in (twice, apart)]
    assert [*networks[0].layers] == [*networks[1].layers] == list("01234")
    assert layer_table(twice, (5,)) == layer_table(apart, (5,))
    for c in range(1, 6):
        elastic = ElasticZO(twice, c, lr=0.1, eps=1e-3)
        assert [*map(id, elastic.bp_params)] == [*map(id, twice[c:].parameters())]


def test_layers_with_shared_weights_are_refused_in_integers() -> None:
    linear = nn.Linear(5, 5, bias=False)
    with pytest.raises(UsageError, match="layer 2 has a weight or bias of layer 0"):
        IntegerNetwork.random(nn.Sequential(linear, nn.ReLU(), linear), seed=0)
    with pytest.raises(UsageError, match="must flatten all but the batch"):
        IntegerNetwork.random(nn.Sequential(nn.Flatten(2), nn.Linear(5, 2, bias=False)), seed=0)
