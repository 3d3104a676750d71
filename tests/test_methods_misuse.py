"""What users of the methods get wrong is reported: by a warning in the first step, or an error."""

import copy
import itertools
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import ReproError, UsageError
from repro.integer.network import IntegerNetwork
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.lattice import Lattice
from repro.methods.log import replay
from repro.methods.low_rank import LowRankNoise
from repro.methods.meazo import MEAZO
from repro.methods.mezo import MeZO
from repro.methods.rademacher import RademacherNoise
from repro.methods.rules import by_spread
from repro.methods.sparse import SparseNoise, thresholds_of
from repro.methods.step_info import DivergedError, GradientEstimate
from repro.methods.torch_noise import TorchNoise
from repro.methods.watch import CoarseLossWarning, PassesDifferWarning, UnusedParameterWarning
from repro.methods.zeroth_order import NothingMovesWarning

X = torch.linspace(-1, 1, 32).reshape(8, 4)
Y = torch.arange(8) % 2
SETTINGS: Any = {"lr": 1e-2, "eps": 1e-3}
MODEL = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def loss_of(model: nn.Module, x: torch.Tensor = X) -> Callable[[], torch.Tensor]:
    return lambda: cross_entropy(model(x).float(), Y)


def test_a_parameter_that_the_loss_does_not_use_is_named() -> None:
    model = nn.ModuleDict({"used": network(), "idle": nn.Linear(4, 2)})
    with pytest.warns(UnusedParameterWarning, match=r"without 2 of 6 .*\(of shape \(2, 4\), "):
        MeZO(model.parameters(), **SETTINGS).step(loss_of(model["used"]))


def test_the_loss_of_another_model_is_noticed() -> None:
    trained, other = network(), network(1)
    with pytest.warns(UnusedParameterWarning, match="without 4 of 4 trained parameters"):
        MeZO(trained.parameters(), **SETTINGS).step(loss_of(other))


@pytest.mark.parametrize("make", [MeZO, lambda _, **settings: ElasticZO(MODEL, "2", **settings)])
def test_closures_that_share_the_last_batch_of_a_loop_are_noticed(make: Any) -> None:
    batches = (X, X + 1, X - 1)
    shared = [lambda: cross_entropy(MODEL(x), Y) for x in batches]  # noqa: B023 - as by mistake
    step = make(MODEL.parameters(), **SETTINGS).step
    with pytest.warns(UserWarning, match="all 3 closures returned the loss .*bind each"):
        step(shared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(MODEL.parameters(), **SETTINGS).step([loss_of(MODEL, x) for x in batches])


@pytest.mark.parametrize("wrong", [torch.ones(()), None, [torch.ones(())], 0.5])
def test_a_loss_in_place_of_a_closure_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"step\(\) with a \w+: give a closure"):
        MeZO(MODEL.parameters(), **SETTINGS).step(wrong)


def test_a_tail_without_a_trained_parameter_is_refused() -> None:
    model = network()
    model[2].requires_grad_(False)  # noqa: FBT003
    with pytest.raises(UsageError, match="leaves no parameter to backpropagation: none from '2'"):
        ElasticZO(model, "2", **SETTINGS)


def test_a_group_without_parameters_and_a_path_in_place_of_a_log_are_refused() -> None:
    with pytest.raises(UsageError, match="the key 'params' is missing"):
        MeZO([{"lr": 1.0}], **SETTINGS)
    with pytest.raises(UsageError, match=r"StepLog\.load\(path\)"):
        replay("log.json", MODEL.parameters())  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [MeZO, FZOO, MEAZO])
def test_a_loss_from_elsewhere_is_nobodys_business(make: Any) -> None:
    """A simulator that reads the weights itself, and a loss that PyTorch does not compute."""
    model = network()
    losses = itertools.count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(model.parameters(), **SETTINGS).step(lambda: 1.0 + next(losses))
        weights = [p.detach() for p in network(2).parameters()]
        simulator = make(weights_to_train := [w.requires_grad_() for w in weights], **SETTINGS)
        simulator.step(lambda: float(sum(np.sum(w.detach().numpy()) for w in weights_to_train)))


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randn(8, 4, generator=generator), Y


def drawn_by_the_closure(model: nn.Module) -> Callable[[], torch.Tensor]:
    stream = batches()

    def closure() -> torch.Tensor:
        x, y = next(stream)
        return cross_entropy(model(x), y)

    return closure


def refilled_in_place(model: nn.Module) -> Callable[[], torch.Tensor]:
    stream, x = batches(), torch.empty(8, 4)

    def closure() -> torch.Tensor:
        x.copy_(next(stream)[0])
        return cross_entropy(model(x), Y)

    return closure


@pytest.mark.parametrize("closure_of", [drawn_by_the_closure, refilled_in_place])
@pytest.mark.parametrize("method", ["mezo", "elasticzo"])
def test_a_batch_drawn_in_the_closure_is_noticed(closure_of: Any, method: str) -> None:
    model = network()
    optimizer: Any = (
        MeZO(model.parameters(), **SETTINGS)
        if method == "mezo"
        else ElasticZO(model, "2", **SETTINGS)
    )
    with pytest.warns(PassesDifferWarning, match="computes with other data in each pass"):
        optimizer.step(closure_of(model))


def doubled_loss(model: nn.Module, part: slice) -> torch.Tensor:
    return cross_entropy(model(X[part] * 2), Y[part])


def test_equal_data_in_other_tensors_and_a_failed_step_give_no_warning() -> None:
    """Two micro-batches with other data each, made again in each pass, after a failed step."""
    model = network()
    mezo = MeZO(model.parameters(), **SETTINGS)
    halves = [partial(doubled_loss, model, part) for part in (slice(4), slice(4, 8))]

    state: Any = {"fails": True, "x": X + 1}

    def closure() -> torch.Tensor:
        loss = cross_entropy(model(state["x"]), Y)
        if state["fails"]:
            raise KeyError
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError):
            mezo.step(closure)
        state |= {"fails": False, "x": X}
        mezo.step([*halves, closure])


def static_buffer(model: nn.Module) -> Callable[[], torch.Tensor]:
    """The same batch is copied into one buffer, as for CUDA graphs; some values are missing."""
    buffer, x = torch.empty_like(X), X.clone()
    x[0, 0] = float("nan")
    return lambda: cross_entropy(model(buffer.copy_(x)).nan_to_num(), Y)


def in_place_residual(model: nn.Module) -> Callable[[], torch.Tensor]:
    """What the first layer takes is changed later in the same pass."""

    def closure() -> torch.Tensor:
        h = X * 1
        h += model(h).mean()
        return h.sum() ** 2

    return closure


def per_sample(model: nn.Module) -> Callable[[], torch.Tensor]:
    return lambda: torch.vmap(lambda x: model(x).square().sum())(X).mean()


def sparse_input(model: nn.Module) -> Callable[[], torch.Tensor]:
    x = X.to_sparse()
    return lambda: (
        cross_entropy(model[1:](torch.sparse.mm(x, model[0].weight.T)), Y) + model[0].bias.sum()
    )


def by_jit(model: nn.Module) -> Callable[[], torch.Tensor]:
    traced = torch.jit.trace(model, X)
    return lambda: cross_entropy(traced(X), Y)


def with_a_number(model: nn.Module) -> Callable[[], torch.Tensor]:
    """A parameter is only read as a number of Python."""
    return lambda: cross_entropy(model[1:](X @ model[0].weight.T) * float(model[0].bias.sum()), Y)


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*[Ss]parse:UserWarning")
@pytest.mark.parametrize(
    "closure_of",
    [static_buffer, in_place_residual, per_sample, sparse_input, by_jit, with_a_number],
)
def test_unusual_but_sound_losses_run_without_a_warning(closure_of: Any) -> None:
    model = network()
    closure = closure_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedParameterWarning)
        warnings.simplefilter("error", PassesDifferWarning)
        MeZO(model.parameters(), **SETTINGS).step(closure)


def test_an_idle_layer_of_the_model_is_named() -> None:
    class WithIdleLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.used(x)
            return out

    model = WithIdleLayer()
    with pytest.warns(UnusedParameterWarning, match=r"\(idle\.weight, idle\.bias\)"):
        MeZO(model.parameters(), **SETTINGS).step(loss_of(model))


def test_batch_norm_at_the_input_is_not_taken_for_other_data() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.warns(PassesDifferWarning) as found:
        MeZO(model.parameters(), **SETTINGS).step(loss_of(model))
    assert ["buffers" in str(one.message) for one in found] == [True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_loaded_weights_are_restored_exactly_too(dtype: torch.dtype) -> None:
    """A checkpoint loaded between two steps is rounded to the lattice like the first weights."""
    model, other = network().to(dtype), network(5).to(dtype)
    mezo = MeZO(model.parameters(), **SETTINGS)
    x = X.to(dtype)
    mezo.step(loss_of(model, x))
    model.load_state_dict(other.state_dict())
    with pytest.raises(ReproError, match="nan"):
        mezo.step(lambda: float("nan"))
    lattice = Lattice(dtype, SETTINGS["eps"])
    for found, loaded in zip(model.parameters(), other.parameters(), strict=True):
        near = lattice.round_up_above(loaded.detach().to(lattice.wide), 0.5).to(dtype)
        assert torch.equal(found, near)


def trained_log(dtype: torch.dtype = torch.float32) -> Any:
    model = network().to(dtype)
    mezo = MeZO(model.parameters(), **SETTINGS)
    mezo.step(loss_of(model, X.to(dtype)))
    return mezo.log


def test_replay_refuses_another_model_or_format() -> None:
    log, model = trained_log(), network()
    for wrong in (model.to(torch.bfloat16).parameters(), list(network().parameters())[::-1]):
        with pytest.raises(UsageError, match="shapes or number formats of the parameters"):
            replay(log, wrong)
    with pytest.raises(UsageError, match="shapes or number formats"):
        replay(trained_log(torch.bfloat16), network().parameters())


def test_replay_takes_what_optimizers_take() -> None:
    log, by_list, by_name = trained_log(), network(), network()
    replay(log, by_list.parameters())
    replay(log, by_name.named_parameters())
    assert all(map(torch.equal, by_list.parameters(), by_name.parameters()))
    with pytest.raises(UsageError, match=r"Sequential: give the parameters"):
        replay(log, network())  # type: ignore[arg-type]


def test_a_log_is_shown_in_one_line() -> None:
    assert len(repr(trained_log())) < 300


@pytest.mark.parametrize("chunk", [None, 3])
def test_random_signs_are_replayed_without_naming_them(chunk: int | None) -> None:
    model, again = network(), network()
    fzoo = FZOO(model.parameters(), **SETTINGS, chunk=chunk)
    fzoo.step(loss_of(model))
    replay(fzoo.log, again.parameters())
    assert all(map(torch.equal, model.parameters(), again.parameters()))


@pytest.mark.parametrize("make", [MeZO, FZOO, MEAZO])
def test_a_model_in_place_of_its_parameters_is_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="parameters = Sequential: give the parameters, as in mod"):
        make(network(), **SETTINGS)
    with pytest.raises(UsageError, match="parameters hold Linear"):
        make([network()[0]], **SETTINGS)
    for wrong in (network().parameters, None, network()[0].weight, [{"params": network()}]):
        with pytest.raises(UsageError, match="give the parameters, as in model"):
            make(wrong, **SETTINGS)
    with pytest.raises(UsageError, match="parameters hold tuple"):
        make([(network()[0].weight,)], **SETTINGS)


def test_parameters_in_place_of_the_model_are_refused() -> None:
    with pytest.raises(UsageError, match="model = generator: give the model itself"):
        ElasticZO(network().parameters(), "2", **SETTINGS)  # type: ignore[arg-type]


def test_a_compiled_model_is_split_by_the_names_of_its_layers() -> None:
    model = network()
    compiled: Any = torch.compile(model, backend="eager")
    for partition in ("2", 2):
        found = ElasticZO(compiled, partition, **SETTINGS)
        assert [id(p) for p in found.bp_params] == [id(p) for p in model[2].parameters()]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "returned None"),
        ((1.0, 2.0), "returned tuple"),
        (torch.ones(3), r"returned a tensor of torch\.float32 and shape \(3,\)"),
        (torch.ones((), dtype=torch.complex64), r"returned a tensor of torch\.complex64"),
    ],
)
@pytest.mark.parametrize("make", [MeZO, lambda _, **settings: ElasticZO(MODEL, "2", **settings)])
def test_a_closure_without_a_loss_is_explained(make: Any, returned: Any, said: str) -> None:
    if make is not MeZO and isinstance(returned, torch.Tensor):
        returned.requires_grad_()
    model = MODEL
    before = copy.deepcopy(model)
    with pytest.raises(UsageError, match=f"{said}.*: it must return one loss"):
        make(model.parameters(), **SETTINGS).step(lambda: returned)
    for one, other in zip(model.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"noise": "gaussian"}, "noise = 'gaussian': give an object"),
        ({"noise": RademacherNoise}, "RademacherNoise.*: give an object"),
        ({"rule": "sgd"}, "rule = 'sgd': give a function"),
        ({"seed": 1.5}, r"seed = 1\.5: must be a whole number"),
        ({"seed": True}, "seed = True: must be a whole number"),
        ({"seed": 2**70}, "must be a whole number from"),
    ],
)
def test_a_name_in_place_of_an_object_is_refused_before_a_step(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        MeZO(network().parameters(), **SETTINGS, **wrong)


def test_a_seed_of_numpy_is_that_number() -> None:
    one, other = network(), network()
    for model, seed in ((one, 3), (other, np.int64(3))):
        MeZO(model.parameters(), **SETTINGS, seed=seed).step(loss_of(model))
    assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_a_rate_of_0_is_taken_as_torchs_optimizers_do() -> None:
    model = network()
    before = copy.deepcopy(model)
    MeZO(model.parameters(), lr=0, eps=1e-3).step(loss_of(model))
    for one, other in zip(model.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


def test_a_partition_of_a_nested_model_is_suggested() -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(30))
    model = nn.ModuleDict({"model": nn.ModuleDict({"layers": layers})})
    with pytest.raises(UsageError, match=r"did you mean model\.layers\.28\? There are: ") as found:
        ElasticZO(model, "layers.28", **SETTINGS)
    assert len(str(found.value)) < 500


class OwnForward(nn.Sequential):
    """Its layers do not tell what it computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 0 + 1


def test_integers_need_a_network_whose_layers_tell_what_it_computes() -> None:
    layers = [nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False)]
    assert IntegerNetwork.random(nn.Sequential(*layers), seed=0)
    with pytest.raises(UsageError, match=r"OwnForward is no plain nn\.Sequential"):
        IntegerNetwork.random(OwnForward(*layers), seed=0)


@pytest.mark.parametrize("where", ["the network", "a layer"])
@pytest.mark.parametrize("how", ["hook", "pre-hook", "forward"])
def test_integers_need_a_network_without_additions(where: str, how: str) -> None:
    model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))
    changed = model if where == "the network" else model[1]
    if how == "hook":
        changed.register_forward_hook(lambda _module, _inputs, output: output * 2)
    elif how == "pre-hook":
        changed.register_forward_pre_hook(lambda _module, inputs: inputs)
    else:
        changed.forward = lambda x: x * 0  # type: ignore[method-assign]
    named = "Sequential" if where == "the network" else "layer 1"
    with pytest.raises(UsageError, match=f"{named} has forward hooks or a replaced forward"):
        IntegerNetwork.random(model, seed=0)


def _mezo(weight: nn.Parameter, **settings: Any) -> MeZO:
    return MeZO([weight], **{"lr": 1e-3, "eps": 1e-3, **settings})


def _meazo(weight: nn.Parameter, **settings: Any) -> MEAZO:
    return MEAZO([weight], lr=1e-3, eps=1e-3, **settings)


def _low_rank(weight: nn.Parameter, **settings: Any) -> MeZO:
    return _mezo(weight, noise=LowRankNoise(rank=2, **settings))


def _elastic(weight: nn.Parameter, first: int = 1, **settings: Any) -> ElasticZO:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight = weight
    return ElasticZO(model, first, lr=1e-3, eps=1e-3, **settings)


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (_mezo, partial(_mezo, rule=lambda estimates: [e.projected_gradient for e in estimates])),
        (_mezo, partial(_mezo, clip=1.0)),
        (_mezo, partial(_mezo, eps=1e-2)),
        (partial(_mezo, restore="exact"), _mezo),
        (
            partial(
                _mezo,
                perturbations=8,
                estimator="one-sided",
                rule=by_spread,
                noise=RademacherNoise(),
            ),
            lambda weight: FZOO([weight], lr=1e-3, eps=1e-3),
        ),
        (_meazo, partial(_meazo, beta=0.5)),
        (_meazo, partial(_meazo, floor=1.0)),
        (_low_rank, partial(_low_rank, subspace_steps=5)),
        (_elastic, partial(_elastic, activations="minus")),
        (_elastic, partial(_elastic, first=2)),
        (_elastic, _mezo),
    ],
)
def test_a_state_of_other_settings_is_refused(make: Any, other: Any) -> None:
    weight = nn.Parameter(torch.ones(4, 4))
    mine = make(weight)
    mine.load_state_dict(make(weight).state_dict())
    before = str(mine.state_dict())
    with pytest.raises(UsageError, match=r"the state is from a run with .* instead of"):
        mine.load_state_dict(other(weight).state_dict())
    assert str(mine.state_dict()) == before


def test_a_state_brings_its_seed() -> None:
    theta = torch.nn.Parameter(torch.ones(4))
    resumed = MeZO([theta], lr=1e-3, eps=1e-3)
    resumed.load_state_dict(MeZO([theta], lr=1e-3, eps=1e-3, seed=5).state_dict())
    assert resumed.settings["seed"] == 5


class Averaged:
    """A rule that remembers: a running mean of the projected gradients."""

    def __init__(self) -> None:
        self.mean = 0.0

    def __call__(self, estimates: Sequence[GradientEstimate]) -> list[float]:
        self.mean = 0.9 * self.mean + 0.1 * estimates[0].projected_gradient
        return [self.mean] * len(estimates)

    def state_dict(self) -> dict[str, float]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.mean = state["mean"]


def test_a_rule_that_remembers_resumes_from_its_own_state() -> None:
    whole, halves = (torch.nn.Parameter(torch.linspace(-1, 1, 6)) for _ in range(2))
    one, first = (MeZO([p], lr=1e-2, eps=1e-3, rule=Averaged()) for p in (whole, halves))
    for _ in range(8):
        one.step(lambda: (whole**2).sum())
    for _ in range(4):
        first.step(lambda: (halves**2).sum())
    second = MeZO([halves], lr=1e-2, eps=1e-3, rule=Averaged())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(4):
        second.step(lambda: (halves**2).sum())
    assert torch.equal(whole, halves)


@pytest.mark.parametrize("wrong", [1.0, [1.0], [1.0] * 3, ["one", "two"], None])
def test_a_rule_that_returns_no_factors_is_refused(wrong: Any) -> None:
    theta = torch.nn.Parameter(torch.ones(4))
    mezo = MeZO([theta], lr=1e-3, eps=1e-3, perturbations=2, rule=lambda _: wrong)
    with pytest.raises(UsageError, match="for 2 estimates: it must return a list"):
        mezo.step(lambda: (theta**2).sum())
    torch.testing.assert_close(theta.detach(), torch.ones(4))
    assert mezo.log.steps == 0


def test_several_processes_without_a_group_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = nn.Parameter(torch.ones(2))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    MeZO([weight], lr=0.1, eps=1e-3)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.warns(UserWarning, match="2 processes, but no group: each trains weights of its"):
        MeZO([weight], lr=0.1, eps=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loss_in_half_precision_is_reported_with_its_spacing(dtype: torch.dtype) -> None:
    model = network().to(dtype)
    mezo = MeZO(model.parameters(), lr=1e-3, eps=1e-3, clip=1)
    losses: list[torch.Tensor] = []

    def closure() -> torch.Tensor:
        losses.append(cross_entropy(model(X.to(dtype)), Y))
        return losses[-1]

    with pytest.warns(CoarseLossWarning) as caught:
        mezo.step(closure)
    above = torch.nextafter(losses[-1], torch.tensor(float("inf"), dtype=dtype))
    spacing = float(above) - float(losses[-1])
    (warning,) = caught
    assert f"are {spacing:.2g} apart" in str(warning.message)
    assert f"steps of {spacing / 2e-3:.2g} " in str(warning.message)


def test_steps_that_move_nothing_are_reported_once() -> None:
    model, replaced = network(), network(1)
    mezo = MeZO(model.parameters(), **SETTINGS)
    mezo.step(loss_of(model))
    replaced_loss = loss_of(replaced)  # as after load_state_dict(..., assign=True)
    with pytest.warns(NothingMovesWarning) as caught:
        deque((mezo.step(replaced_loss) for _ in range(50)), maxlen=0)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: MeZO(network().parameters(), **SETTINGS),
        lambda: MEAZO(network().parameters(), **SETTINGS),
        lambda: ElasticZO(network(), "2", **SETTINGS),
    ],
)
def test_a_setting_that_an_attribute_cannot_change_is_refused(make: Any) -> None:
    for made in (make(), copy.deepcopy(make())):
        for name in made.settings.keys() - {"timed", "group", "tied", "clip", "activations"}:
            how = r"param_groups\[0\]\['lr'\]" if name == "lr" else "make a new optimizer"
            with pytest.raises(UsageError, match=f"{name} = 1: .*{how}"):
                setattr(made, name, 1)
        made.timed = True
        made.clip = 1e-3
        with pytest.raises(UsageError, match="gradient clip g_clip = -1"):
            made.clip = -1


def test_a_copy_made_in_a_closure_can_step() -> None:
    model, copies = network(), []
    mezo = MeZO(model.parameters(), **SETTINGS)

    def closure() -> torch.Tensor:
        copies.append(copy.deepcopy(mezo))
        return loss_of(model)()

    mezo.step(loss_of(model))
    mezo.step(closure)
    with pytest.warns(UnusedParameterWarning) if copies[0]._first else nullcontext():
        copies[0].step(loss_of(model))


@pytest.mark.parametrize(
    "make", [MeZO, FZOO, lambda _, **settings: ElasticZO(MODEL, 2, **settings)]
)
def test_a_step_within_a_step_is_refused_and_harms_nothing(make: Any) -> None:
    before = copy.deepcopy(MODEL.state_dict())
    optimizer = make(MODEL.parameters(), **SETTINGS)

    def nested() -> torch.Tensor:
        optimizer.step(loss_of(MODEL))
        return loss_of(MODEL)()

    with pytest.raises(UsageError, match="before another step of this optimizer ended"):
        optimizer.step(nested)
    assert optimizer.log.steps == 0
    for name, value in MODEL.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=1e-6)
    optimizer.step(loss_of(MODEL))
    assert optimizer.log.steps == 1


def test_a_step_in_another_thread_is_refused_while_one_runs() -> None:
    model = network()
    elastic, entered, leave = ElasticZO(model, "2", **SETTINGS), Event(), Event()

    def slow() -> torch.Tensor:
        entered.set()
        leave.wait(60)
        return loss_of(model)()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(elastic.step, slow)
        entered.wait(60)
        with pytest.raises(UsageError, match="in another thread"):
            elastic.step(loss_of(model))
        leave.set()
        running.result()
    assert elastic.log.steps == 1
    alone = network()
    ElasticZO(alone, "2", **SETTINGS).step(loss_of(alone))
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_parameter_of_another_shape_is_refused_before_any_moves() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
    mezo = MeZO(model.parameters(), **SETTINGS)
    tokens = torch.arange(8) % 5
    mezo.step(lambda: cross_entropy(model(tokens), Y))
    model[0].weight.data = torch.zeros(7, 4)  # as transformers resizes an embedding
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(UsageError, match=r"shape \(5, 4\) has the shape \(7, 4\) since"):
        mezo.step(lambda: cross_entropy(model(tokens), Y))
    assert all(map(torch.equal, before, model.parameters()))


def test_a_tail_that_was_replaced_is_noticed() -> None:
    model = network()
    elastic = ElasticZO(model, "2", **SETTINGS)
    model[2] = nn.Linear(3, 2)
    with pytest.warns(UnusedParameterWarning, match="without 2 of 2 backpropagated parameters"):
        elastic.step(loss_of(model))


def test_a_closure_that_changes_a_weight_is_noticed() -> None:
    model = nn.Sequential(nn.Embedding(5, 4, max_norm=0.5), nn.Linear(4, 2))
    tokens = torch.arange(8) % 5
    with pytest.warns(PassesDifferWarning, match=r"changes trained parameters \(0.weight\)"):
        MeZO(model.parameters(), **SETTINGS).step(lambda: cross_entropy(model(tokens), Y))


def test_a_closure_of_backprop_that_calls_backward_is_refused() -> None:
    model = network()
    backprop = Backprop(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        loss = loss_of(model)()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with pytest.raises(UsageError, match=r"calls backward\(\), and step\(\) does so itself"):
        backprop.step(closure)
    backprop.step(loss_of(model))


def test_inference_mode_is_named_where_the_tail_needs_gradients() -> None:
    model = network()
    elastic = ElasticZO(model, "2", **SETTINGS)
    with torch.inference_mode(), pytest.raises(UsageError, match=r"under torch.inference_mode\(\)"):
        elastic.step(loss_of(model))


def test_processes_started_without_a_process_group_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``torch.distributed.group.WORLD`` is ``None`` then, which is no group."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(UserWarning, match=r"WORLD_SIZE is 2, .*init_process_group\(\) first"):
        MeZO(network().parameters(), **SETTINGS, group=torch.distributed.group.WORLD)
    with pytest.raises(UsageError, match=r"group = True: give torch\.distributed\.group\.WORLD"):
        MeZO(network().parameters(), **SETTINGS, group=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [[torch.zeros(2), torch.zeros(3, device="meta")], ["meta"]])
def test_weights_without_data_and_on_several_devices_are_refused(given: list[Any]) -> None:
    parameters = [torch.zeros(2, device=one) if one == "meta" else one for one in given]
    with pytest.raises(UsageError, match=r"on (cpu, )?meta: they must be on one device"):
        MeZO([parameter.requires_grad_() for parameter in parameters], **SETTINGS)


def test_a_format_without_arithmetic_is_refused() -> None:
    weights = torch.zeros(4).to(torch.float8_e4m3fn).requires_grad_()
    with pytest.raises(UsageError, match="float8_e4m3fn, in which noise cannot be added"):
        MeZO([weights], **SETTINGS)


def test_a_gradient_that_is_not_finite_leaves_both_parts_as_they_were() -> None:
    model = network()
    elastic = ElasticZO(model, "2", restore="exact", **SETTINGS)
    before = [parameter.detach().clone() for parameter in model.parameters()]

    def closure() -> torch.Tensor:
        out = model(X)
        return cross_entropy(out, Y) + ((out - out.detach()) ** 2).sum().sqrt()  # sqrt'(0) = inf

    with pytest.raises(DivergedError, match=r"gradient of 2\.weight is not finite"):
        elastic.step(closure)
    assert all(map(torch.equal, model.parameters(), before))
    elastic.step(loss_of(model))


def test_a_replay_with_noise_of_another_chunk_is_refused() -> None:
    model = network()
    mezo = MeZO(model.parameters(), **SETTINGS)
    mezo.step(loss_of(model))
    with pytest.raises(UsageError, match="chunk = None cannot be replayed by noise with chunk = 4"):
        replay(mezo.log, network().parameters(), TorchNoise(4))


def test_one_noise_serves_optimizers_of_several_chunks() -> None:
    noise = TorchNoise()
    one, other = network(), network()
    first = MeZO(one.parameters(), noise=noise, **SETTINGS)
    MeZO(other.parameters(), noise=noise, chunk=4, **SETTINGS)
    first.step(loss_of(one))
    again = network()
    replay(first.log, again.parameters())
    assert all(map(torch.equal, one.parameters(), again.parameters()))


def test_a_replay_may_stop_at_any_step() -> None:
    model, states = network(), []
    mezo = MeZO(model.parameters(), **SETTINGS)
    for _ in range(3):
        states.append([parameter.detach().clone() for parameter in model.parameters()])
        mezo.step(loss_of(model))
    for steps, expected in enumerate(states):
        again = network()
        replay(mezo.log, again.parameters(), steps=steps)
        assert all(map(torch.equal, again.parameters(), expected))
    with pytest.raises(UsageError, match="steps = 4: must be a whole number from 0 to 3"):
        replay(mezo.log, network().parameters(), steps=4)


def test_a_state_of_other_parameter_names_is_refused() -> None:
    def square() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))

    named = list(square().named_parameters())
    state = MeZO(named, **SETTINGS).state_dict()
    other = MeZO(named[::-1], **SETTINGS)
    with pytest.raises(
        UsageError, match=r"parameter '0.weight' where this optimizer has '1.weight'"
    ):
        other.load_state_dict(state)


def test_a_compiled_model_takes_the_state_of_the_model() -> None:
    model = network()
    state = MeZO(model.named_parameters(), **SETTINGS).state_dict()
    wrapped = [(f"_orig_mod.{name}", parameter) for name, parameter in model.named_parameters()]
    MeZO(wrapped, **SETTINGS).load_state_dict(state)


@pytest.mark.parametrize("left", [None, torch.zeros])
def test_a_closure_that_backpropagates_through_the_model_is_refused(left: Any) -> None:
    model = network()
    for parameter in model.parameters():
        parameter.grad = None if left is None else left(parameter.shape)

    def closure() -> torch.Tensor:
        with torch.enable_grad():
            loss = cross_entropy(model(X), Y)
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with pytest.raises(UsageError, match=r"calls backward\(\)"):
        MeZO(model.parameters(), **SETTINGS).step(closure)
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_sparse_noise_is_shared_by_optimizers_of_several_chunks() -> None:
    model = network()
    noise = SparseNoise(thresholds_of(model.parameters(), 0.5))
    for chunk in (4, None):
        own, again = copy.deepcopy(model), copy.deepcopy(model)
        mezo = MeZO(own.parameters(), noise=noise, chunk=chunk, **SETTINGS)
        for _ in range(2):
            mezo.step(loss_of(own))
        for _ in range(2):
            other = copy.deepcopy(again)
            replay(mezo.log, other.parameters(), noise)
            assert all(map(torch.equal, own.parameters(), other.parameters()))


def test_a_closure_may_train_another_model() -> None:
    model, inner = network(), nn.Linear(2, 2)
    descent = torch.optim.SGD(inner.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        out = model(X)
        with torch.enable_grad():
            descent.zero_grad()
            cross_entropy(inner(out.detach()), Y).backward()
        return cross_entropy(inner(out), Y)

    before = inner.weight.detach().clone()
    MeZO(model.parameters(), **SETTINGS).step(closure)
    assert inner.weight.grad is not None
    assert torch.equal(inner.weight, before)


@pytest.mark.parametrize("number", [2.5, True, torch.tensor(2.5), np.array([1, 2]), np.bool_(1)])
def test_other_numbers_are_not_whole(number: Any) -> None:
    with pytest.raises(UsageError, match="must be a whole number of at least 1"):
        MeZO(network().parameters(), perturbations=number, **SETTINGS)


@pytest.mark.parametrize("loss", [np.zeros(2), np.array(["a"])])
def test_an_array_is_no_loss(loss: object) -> None:
    with pytest.raises(UsageError, match="the closure returned ndarray, which is no number"):
        MeZO(network().parameters(), **SETTINGS).step(lambda: loss)  # type: ignore[arg-type,return-value]


def test_numpy_integers_are_whole_numbers() -> None:
    mezo = MeZO(network().parameters(), perturbations=np.int64(2), **SETTINGS)  # type: ignore[arg-type]
    assert mezo.perturbations == 2


def test_thresholds_take_named_parameters() -> None:
    model = network()
    named = thresholds_of(model.named_parameters(), 0.5)  # type: ignore[arg-type]
    assert named == thresholds_of(model.parameters(), 0.5)
    SparseNoise(named)


def test_float16_weights_refuse_an_update_beyond_their_largest_number() -> None:
    weights = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    mezo = MeZO([weights], lr=1e6, eps=1e-3, restore="rounded")
    losses = iter((1.0, 0.0))
    with pytest.raises(DivergedError, match="number format of the weights"):
        mezo.step(lambda: next(losses))
    assert torch.isfinite(weights).all()
