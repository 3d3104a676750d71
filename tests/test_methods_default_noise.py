"""The noise that an optimizer takes by itself: the kernels on a GPU where they run."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from repro.core.errors import UsageError
from repro.methods.default_noise import kernels_run
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.log import replay
from repro.methods.meazo import MEAZO
from repro.methods.mezo import MeZO
from repro.methods.philox import PhiloxNoise


@pytest.fixture(autouse=True)
def _untried() -> Iterator[None]:
    kernels_run.cache_clear()
    yield
    kernels_run.cache_clear()


GPU = "cuda"


def network(device: str = "cpu", dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    return torch.nn.Sequential(*layers).to(device, dtype)


def loss_of(model: torch.nn.Module) -> Callable[[], torch.Tensor]:
    weight = next(model.parameters())
    inputs = torch.linspace(-1, 1, 24).reshape(4, 6).to(weight)
    return lambda: model(inputs).float().square().mean()


MAKERS: dict[str, tuple[Any, str, str]] = {
    "mezo": (lambda model, **k: MeZO(model.parameters(), **k), "torch", "philox"),
    "meazo": (lambda model, **k: MEAZO(model.parameters(), **k), "torch", "philox"),
    "elasticzo": (lambda model, **k: ElasticZO(model, "2", **k), "torch", "philox"),
    "fzoo": (lambda model, **k: FZOO(model.parameters(), **k), "rademacher", "philox-signs"),
}
"""Make an optimizer; its noise on a CPU and on a GPU."""


def require_replay(make: Any, noise: str, device: str, dtype: torch.dtype) -> None:
    trained, again = network(device, dtype), network(device, dtype)
    optimizer = make(trained, lr=1e-3, eps=1e-2)
    assert optimizer.log.noise == noise
    for _ in range(3):
        optimizer.step(loss_of(trained))
    count = len(optimizer.zo_params)
    replay(optimizer.log, list(again.parameters())[:count])
    for one, other in zip(optimizer.zo_params, list(again.parameters())[:count], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", MAKERS)
def test_pytorch_draws_on_a_cpu_and_the_log_is_enough_to_replay(name: str) -> None:
    make, noise, _ = MAKERS[name]
    require_replay(make, noise, "cpu", torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MAKERS)
def test_kernels_draw_on_a_gpu_and_the_log_is_enough_to_replay(
    name: str, dtype: torch.dtype
) -> None:
    make, _, noise = MAKERS[name]
    require_replay(make, noise, GPU, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        (torch.float64, {}),
        (torch.float32, {"restore": "exact"}),
        (torch.bfloat16, {"chunk": 4096}),
    ],
)
def test_pytorch_draws_what_the_kernels_cannot(
    dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    mezo = MeZO(network(GPU, dtype).parameters(), lr=1e-3, eps=1e-2, **settings)
    assert mezo.log.noise == "torch"


@pytest.mark.gpu
def test_weights_may_return_to_the_gpu_but_not_stay_on_the_host() -> None:
    model = network(GPU)
    mezo = MeZO(model.parameters(), lr=1e-3, eps=1e-2)
    mezo.step(loss_of(model))
    model.cpu()
    before = [parameter.clone() for parameter in model.parameters()]
    for _ in range(2):
        with pytest.raises(UsageError, match="a parameter on cpu: its kernels run on a GPU"):
            mezo.step(loss_of(model))
    assert all(map(torch.equal, before, model.parameters()))
    model.to(GPU)
    mezo.step(loss_of(model))
    assert mezo.log.steps == 2


@pytest.mark.gpu
def test_kernels_that_fail_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhiloxNoise, "add_", fails)
    with pytest.warns(UserWarning, match="do not run on cuda"):
        mezo = MeZO(network(GPU).parameters(), lr=1e-3, eps=1e-2)
    assert mezo.log.noise == "torch"


def fails(*_: object) -> None:
    msg = "Failed to find C compiler.\nPlease specify via CC"
    raise RuntimeError(msg)


def test_kernels_that_fail_are_tried_once_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")  # any: the attempt fails before it matters
    monkeypatch.setattr(PhiloxNoise, "add_", fails)
    with pytest.warns(UserWarning, match=r"RuntimeError: Failed to find C compiler\.\)"):
        assert not kernels_run(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not kernels_run(device)
