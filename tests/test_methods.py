"""MeZO and backpropagation on problems whose answers are known."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from repro.core.errors import ReproError, UsageError
from repro.methods.backprop import Backprop
from repro.methods.log import StepLog
from repro.methods.mezo import MeZO
from repro.methods.noise import CPU_CHUNK
from repro.methods.step_info import DivergedError, GradientEstimate
from repro.methods.torch_noise import KeptNoise, TorchNoise, perturb_


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


@pytest.mark.parametrize("sizes", [(60_001, 69_999), (100_001, 399_999), (16_800_001,)])
def test_each_chunk_is_drawn_from_its_seed_by_any_number_of_threads(sizes: tuple[int, ...]) -> None:
    total, generator = sum(sizes), torch.Generator()
    expected = [
        torch.empty(min(CPU_CHUNK, total - start)).normal_(generator=generator.manual_seed(7 + i))
        for i, start in enumerate(range(0, total, CPU_CHUNK))
    ]
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        model = [torch.zeros(size, requires_grad=True) for size in sizes]
        perturb_(model, seed=7, scale=1.0)
        assert torch.equal(torch.cat(model), torch.cat(expected))


def test_chunks_and_parameters_have_noise_of_their_own() -> None:
    parameters = [torch.zeros(100), torch.zeros(100)]
    perturb_(parameters, seed=0, scale=1.0, chunk=50)
    pieces = [piece for parameter in parameters for piece in parameter.split(50)]
    correlation = np.corrcoef(torch.stack(pieces).numpy()) - np.eye(4)
    assert abs(correlation).max() < 0.6  # 50 samples: standard deviation 0.14
    assert len({tuple(piece.tolist()) for piece in pieces}) == 4


@pytest.mark.parametrize("chunk", [0, -50])
def test_a_chunk_without_elements_is_refused(chunk: int) -> None:
    with pytest.raises(UsageError, match=f"chunk = {chunk}"):
        perturb_([torch.zeros(100)], seed=0, scale=1.0, chunk=chunk)


def test_kept_noise_changes_no_number_and_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    normal_ = torch.Tensor.normal_

    def counted(self: torch.Tensor, *, generator: torch.Generator) -> torch.Tensor:
        drawn.append(generator.initial_seed())
        return normal_(self, generator=generator)

    monkeypatch.setattr(torch.Tensor, "normal_", counted)
    kept = KeptNoise(elements=330)
    for seed, sizes, expected in (
        (1, (130, 200), 4),
        (1, (130, 200), 0),
        (2, (130, 200), 4),
        (2, (100, 50), 2),
        (2, (100, 50), 0),
        (2, (331,), 4),  # too long to keep
        (2, (331,), 4),
    ):
        plain, sparing = ([torch.zeros(size) for size in sizes] for _ in range(2))
        perturb_(plain, seed, 0.5, chunk=100)
        before = len(drawn)
        perturb_(sparing, seed, 0.5, chunk=100, kept=kept)
        assert all(map(torch.equal, plain, sparing))
        assert sorted(drawn[before:]) == [seed + index for index in range(expected)]


def test_a_step_frees_the_noise_its_passes_share() -> None:
    noise = TorchNoise()
    optimizer = MeZO([torch.zeros(1000, requires_grad=True)], lr=1.0, eps=1e-3, noise=noise)
    optimizer.step(lambda: 1.0)
    assert noise._kept.vector.numel() == 0
    with pytest.raises(ReproError):
        optimizer.step(lambda: float("nan"))
    assert noise._kept.vector.numel() == 0


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
    mezo.step(lambda: 0.5 * (scale * theta**2).sum())
    assert mezo.last is not None
    (estimate,) = mezo.last.estimates
    z = torch.zeros_like(theta.detach())
    perturb_([z], estimate.seed, 1.0)
    # exact for a quadratic: the even terms cancel
    assert estimate.projected_gradient == pytest.approx(float((scale * z).sum()), rel=1e-9)


@pytest.mark.parametrize("perturbations", [1, 3])
def test_update_is_sgd_on_the_mean_estimate(perturbations: int) -> None:
    theta, scale = quadratic()
    start = theta.detach().clone()
    mezo = MeZO([theta], lr=0.01, eps=1e-3, seed=3, perturbations=perturbations)
    mezo.step(lambda: 0.5 * (scale * theta**2).sum())
    assert mezo.last is not None
    expected = start
    for estimate in mezo.last.estimates:
        z = torch.zeros_like(start)
        perturb_([z], estimate.seed, 1.0)
        expected = expected - 0.01 * estimate.projected_gradient / perturbations * z
    assert len(mezo.last.estimates) == perturbations
    torch.testing.assert_close(theta.detach(), expected, rtol=1e-12, atol=1e-12)


def test_parameters_in_the_same_memory_are_refused_and_neighbours_taken() -> None:
    memory = torch.ones(10)
    apart = [torch.nn.Parameter(memory[:4]), torch.nn.Parameter(memory[4:])]
    MeZO(reversed(apart), lr=1, eps=1e-3)
    tied = [torch.nn.Parameter(memory[:4]), torch.nn.Parameter(memory[3:])]
    with pytest.raises(UsageError, match=r"shapes \(4,\) and \(7,\) share memory"):
        MeZO(tied, lr=1, eps=1e-3)
    with pytest.raises(UsageError, match="share memory"):
        MeZO([{"params": apart[:1]}, {"params": [torch.nn.Parameter(memory)]}], lr=1, eps=1e-3)


def test_tied_parameters_are_perturbed_once() -> None:
    shared = torch.nn.Parameter(torch.zeros(4))
    mezo = MeZO([shared, shared], lr=1.0, eps=1.0)
    assert len(mezo.param_groups[0]["params"]) == 1


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

    with pytest.raises(ReproError, match=r"l[+-] with perturbation seed \d+ = nan"):
        MeZO([theta], lr=0.1, eps=1e-3).step(loss)
    torch.testing.assert_close(theta.detach(), torch.ones(1000), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -0.1, "eps": 1e-3}, "learning rate lr = -0.1"),
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


def test_a_parameter_that_is_not_contiguous_is_refused() -> None:
    strided = torch.nn.Parameter(torch.ones(3, 4).t())
    with pytest.raises(UsageError, match=r"shape \(4, 3\) is not contiguous"):
        MeZO([strided], lr=1.0, eps=1.0)


def test_backprop_is_plain_sgd_and_frees_its_gradients() -> None:
    theta, scale = quadratic()
    loss = Backprop([theta], lr=0.1).step(lambda: 0.5 * (scale * theta**2).sum())
    torch.testing.assert_close(theta.detach(), 1 - 0.1 * scale)
    assert loss == pytest.approx(float(0.5 * scale.sum()))
    assert theta.grad is None


def test_adam_is_that_of_torch() -> None:
    theta, scale = quadratic()
    reference = torch.nn.Parameter(theta.detach().clone())
    optimizer = torch.optim.Adam([reference], lr=0.1)
    adam = Backprop([theta], lr=0.1, rule="adam")
    for _ in range(3):
        adam.step(lambda: 0.5 * (scale * theta**2).sum())
        optimizer.zero_grad()
        (0.5 * (scale * reference**2).sum()).backward()
        optimizer.step()
    assert torch.equal(theta, reference)


def test_backprop_stops_at_a_loss_that_is_not_finite() -> None:
    theta, _ = quadratic()
    with pytest.raises(ReproError, match="loss = nan"):
        Backprop([theta], lr=0.1).step(lambda: theta.sum() * math.nan)
    assert torch.equal(theta.detach(), torch.ones(8, dtype=torch.float64))


@pytest.mark.parametrize("perturbations", [1, 3])
def test_a_descent_that_grows_beyond_float32_has_diverged(perturbations: int) -> None:
    theta = torch.nn.Parameter(torch.ones(8))
    mezo = MeZO([theta], lr=100.0, eps=1e-3, perturbations=perturbations)
    with pytest.raises(DivergedError, match=r"step 1: learning rate times g = -?\d.*e\+(39|4\d)"):
        mezo.step(lambda: 1e38 * (theta - 1).sum() / 8)
    torch.testing.assert_close(theta.detach(), torch.ones(8))
    assert mezo.log.steps == 0


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_an_exact_update_that_grows_beyond_float32_has_diverged(weight_decay: float) -> None:
    """An exact pass multiplies z by lr g / eps, which is larger than lr g."""
    theta = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    mezo = MeZO([theta], lr=1.0, eps=1e-3, weight_decay=weight_decay, restore="exact")
    losses = itertools.cycle([1e34, -1e34])
    with pytest.raises(
        DivergedError, match=r"step 1: learning rate times g = .* exceeds \d\.\d+e\+35"
    ):
        mezo.step(lambda: next(losses))
    assert torch.equal(theta.detach(), torch.ones(8, dtype=torch.bfloat16))
    assert mezo.log.steps == 0


def test_backprop_takes_parameters_and_a_loss_with_a_gradient() -> None:
    theta = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(UsageError, match="parameters = groups: give the parameters alone"):
        Backprop([{"params": [theta], "lr": 5.0}], lr=0.1)  # type: ignore[list-item]
    backprop = Backprop([theta], lr=0.1)
    for wrong, said in (
        (lambda: None, "the closure returned None"),
        (lambda: 1.0, "a loss without a gradient"),
        (lambda: theta.detach().sum(), "a loss without a gradient"),
    ):
        with pytest.raises(UsageError, match=said):
            backprop.step(wrong)  # type: ignore[arg-type]
    assert torch.equal(theta.detach(), torch.ones(3))


def test_a_log_that_lost_an_estimate_is_refused(tmp_path: Path) -> None:
    log = StepLog(eps=1e-3, perturbations=2, chunk=None)
    log.append([GradientEstimate(1, 0.5, 0.4, 50.0)], lr=1e-3)
    log.save(tmp_path / "run.json")
    with pytest.raises(ReproError, match="no whole number of steps"):
        StepLog.load(tmp_path / "run.json")


def test_clip_bounds_the_projected_gradient() -> None:
    theta, scale = quadratic()
    mezo = MeZO([theta], lr=1e-6, eps=1e-3, clip=0.01)
    mezo.step(lambda: 1000 * (scale * theta**2).sum())
    assert mezo.last is not None
    assert abs(mezo.last.estimates[0].projected_gradient) == 0.01


def test_a_loss_that_has_no_gradient_is_minimised() -> None:
    theta = torch.nn.Parameter(torch.full((4,), 3.0))
    mezo = MeZO([theta], lr=0.05, eps=0.5, seed=1)

    def steps() -> float:
        return float(theta.detach().abs().round(decimals=1).sum())

    before = steps()
    for _ in range(300):
        mezo.step(steps)
    assert steps() < 0.5 * before


def test_a_group_that_comes_late_is_refused() -> None:
    theta, _ = quadratic()
    mezo = MeZO([theta], lr=0.1, eps=1e-3)
    with pytest.raises(UsageError, match="make a new optimizer with all groups"):
        mezo.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    assert len(mezo.param_groups) == 1
