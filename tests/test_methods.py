"""MeZO and backpropagation on problems whose answers are known."""

import math

import numpy as np
import pytest
import torch

from repro.core.errors import ReproError, UsageError
from repro.methods.backprop import Backprop
from repro.methods.mezo import MeZO
from repro.methods.perturbation import perturb_


def quadratic(dimension: int = 8) -> tuple[torch.nn.Parameter, torch.Tensor]:
    scale = torch.linspace(1, 2, dimension, dtype=torch.float64)
    return torch.nn.Parameter(torch.ones(dimension, dtype=torch.float64)), scale


def test_noise_is_standard_gaussian_and_the_same_for_the_same_seed() -> None:
    first, second = torch.zeros(200_000), torch.zeros(200_000)
    perturb_([first], seed=5, scale=1.0)
    perturb_([second], seed=5, scale=1.0)
    assert torch.equal(first, second)
    assert abs(first.mean()) < 4 / math.sqrt(200_000)
    assert abs(first.std() - 1) < 4 / math.sqrt(2 * 200_000)


def test_chunks_and_parameters_have_noise_of_their_own() -> None:
    parameters = [torch.zeros(100), torch.zeros(100)]
    perturb_(parameters, seed=0, scale=1.0, chunk=50)
    pieces = [piece for parameter in parameters for piece in parameter.split(50)]
    correlation = np.corrcoef(torch.stack(pieces).numpy()) - np.eye(4)
    assert abs(correlation).max() < 0.6  # 50 samples: standard deviation 0.14
    assert len({tuple(piece.tolist()) for piece in pieces}) == 4


def test_noise_does_not_touch_the_global_generator() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    perturb_([torch.zeros(10)], seed=3, scale=1.0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_perturb_and_restore_returns_to_float32_rounding() -> None:
    weights = torch.randn(100_000, generator=torch.Generator().manual_seed(0)) * 0.02
    original = weights.clone()
    for scale in (1e-3, -2e-3, 1e-3):
        perturb_([weights], seed=9, scale=scale)
    assert (weights - original).abs().max() < 4 * torch.finfo(torch.float32).eps * 0.1


def test_estimate_is_the_directional_derivative() -> None:
    theta, scale = quadratic()
    mezo = MeZO([theta], lr=1e-9, eps=1e-3, seed=1)
    (estimate,) = mezo.step(lambda: 0.5 * (scale * theta**2).sum())
    z = torch.zeros_like(theta.detach())
    perturb_([z], estimate.seed, 1.0)
    # exact for a quadratic: the even terms cancel
    assert estimate.projected_gradient == pytest.approx(float((scale * z).sum()), rel=1e-9)


def test_mean_of_estimates_is_the_gradient() -> None:
    theta, scale = quadratic()
    mezo = MeZO([theta], lr=1e-12, eps=1e-4, seed=2, perturbations=4000)
    total = torch.zeros_like(scale)
    for estimate in mezo.step(lambda: 0.5 * (scale * theta**2).sum()):
        z = torch.zeros_like(scale)
        perturb_([z], estimate.seed, 1.0)
        total += estimate.projected_gradient * z
    gradient = scale  # at theta = 1
    deviation = math.sqrt((float((gradient**2).sum()) + float(gradient.max()) ** 2) / 4000)
    assert (total / 4000 - gradient).abs().max() < 5 * deviation


@pytest.mark.parametrize("perturbations", [1, 3])
def test_update_is_sgd_on_the_mean_estimate(perturbations: int) -> None:
    theta, scale = quadratic()
    start = theta.detach().clone()
    mezo = MeZO([theta], lr=0.01, eps=1e-3, seed=3, perturbations=perturbations)
    estimates = mezo.step(lambda: 0.5 * (scale * theta**2).sum())
    expected = start
    for estimate in estimates:
        z = torch.zeros_like(start)
        perturb_([z], estimate.seed, 1.0)
        expected = expected - 0.01 * estimate.projected_gradient / perturbations * z
    assert len(estimates) == perturbations
    torch.testing.assert_close(theta.detach(), expected, rtol=1e-12, atol=1e-12)


def test_loss_falls_on_a_quadratic() -> None:
    theta, scale = quadratic()
    mezo = MeZO([theta], lr=0.02, eps=1e-3, seed=4)

    def loss() -> torch.Tensor:
        return 0.5 * (scale * theta**2).sum()

    before = loss().item()
    for _ in range(300):
        mezo.step(loss)
    assert loss().item() < 0.01 * before


def test_tied_parameters_are_perturbed_once() -> None:
    shared = torch.nn.Parameter(torch.zeros(4))
    assert len(MeZO([shared, shared], lr=1.0, eps=1.0).parameters) == 1


def test_frozen_parameters_stay_as_they_are() -> None:
    frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)
    trained = torch.nn.Parameter(torch.ones(4))
    MeZO([frozen, trained], lr=0.1, eps=0.1).step(lambda: (trained * frozen).sum())
    assert torch.equal(frozen, torch.ones(4))
    assert not torch.equal(trained, torch.ones(4))


@pytest.mark.parametrize("failing_call", [1, 2])
def test_weights_are_restored_when_the_loss_fails(failing_call: int) -> None:
    theta = torch.nn.Parameter(torch.ones(1000))
    calls = 0

    def loss() -> float:
        nonlocal calls
        calls += 1
        return math.nan if calls == failing_call else 1.0

    with pytest.raises(ReproError, match=r"l[+-] = nan with perturbation seed \d+"):
        MeZO([theta], lr=0.1, eps=1e-3).step(loss)
    torch.testing.assert_close(theta.detach(), torch.ones(1000), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.0, "eps": 1e-3}, "learning rate lr = 0.0"),
        ({"lr": math.nan, "eps": 1e-3}, "learning rate lr = nan"),
        ({"lr": 1e-3, "eps": -1.0}, "perturbation scale eps = -1.0"),
        ({"lr": 1e-3, "eps": 1e-3, "perturbations": 0}, "perturbations n = 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MeZO([torch.nn.Parameter(torch.ones(1))], **settings)  # type: ignore[arg-type]


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(UsageError, match="no parameter to train"):
        MeZO([torch.zeros(3)], lr=1.0, eps=1.0)


def test_backprop_is_plain_sgd_and_frees_its_gradients() -> None:
    theta, scale = quadratic()
    loss = Backprop([theta], lr=0.1).step(lambda: 0.5 * (scale * theta**2).sum())
    torch.testing.assert_close(theta.detach(), 1 - 0.1 * scale)
    assert float(loss) == pytest.approx(float(0.5 * scale.sum()))
    assert theta.grad is None
