"""Directions, estimators and rules against closed forms on a quadratic; replay of each."""

import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from repro.core.errors import ReproError, UsageError
from repro.methods.fzoo import FZOO
from repro.methods.lattice import Lattice
from repro.methods.log import StepLog, replay
from repro.methods.meazo import MEAZO
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.perturbed_weights import Restore
from repro.methods.rademacher import RademacherNoise
from repro.methods.rules import Estimator, sign
from repro.methods.sparse import SparseNoise, thresholds_of
from repro.methods.torch_noise import TorchNoise

SIZE, ESTIMATES = 6, 3_000
CURVATURE = torch.linspace(0.5, 3, SIZE, dtype=torch.float64)
THETA = torch.linspace(-1, 1.5, SIZE, dtype=torch.float64)
GRADIENT = CURVATURE * THETA
SMALL = THETA.abs() <= 0.5


def gaussian_variance(eps: float) -> torch.Tensor:
    """E[(g.z + eps/2 z'Az)^2 z_i^2] - g_i^2, by the moments 1, 3, 15 of the Gaussian."""
    trace, squares = CURVATURE.sum(), CURVATURE.square().sum()
    fourth = trace**2 + 4 * CURVATURE * trace + 8 * CURVATURE**2 + 2 * squares
    return GRADIENT.square().sum() + GRADIENT**2 + (eps / 2) ** 2 * fourth


def rademacher_variance(eps: float) -> torch.Tensor:
    """As above with z_i^2 = 1, so that z'Az is the trace."""
    bias = (eps / 2 * CURVATURE.sum()) ** 2
    return GRADIENT.square().sum() - GRADIENT**2 + bias


def sparse_variance(_eps: float) -> torch.Tensor:
    masked = GRADIENT * SMALL
    return (masked.square().sum() + masked**2) * SMALL


@pytest.mark.parametrize(
    ("make_noise", "estimator", "eps", "gradient", "variance"),
    [
        (TorchNoise, "two-sided", 0.5, GRADIENT, gaussian_variance(0)),
        (RademacherNoise, "two-sided", 0.5, GRADIENT, rademacher_variance(0)),
        (TorchNoise, "one-sided", 1.0, GRADIENT, gaussian_variance(1)),
        (RademacherNoise, "one-sided", 1.0, GRADIENT, rademacher_variance(1)),
        (lambda: SparseNoise([0.5]), "two-sided", 0.5, GRADIENT * SMALL, sparse_variance(0)),
    ],
)
def test_the_mean_and_the_variance_of_the_estimator_are_the_closed_forms(
    make_noise: Callable[[], Noise],
    estimator: Estimator,
    eps: float,
    gradient: torch.Tensor,
    variance: torch.Tensor,
) -> None:
    theta = nn.Parameter(THETA.clone())
    settings: Any = {"perturbations": ESTIMATES, "noise": make_noise(), "estimator": estimator}
    mezo = MeZO([theta], lr=1e-15, eps=eps, **settings)
    mezo.step(lambda: float((CURVATURE * theta.detach() ** 2).sum() / 2))
    assert mezo.last is not None
    draws, found = make_noise(), torch.empty(ESTIMATES, SIZE, dtype=torch.float64)
    for row, estimate in zip(found, mezo.last.estimates, strict=True):
        draws.add_([moved := THETA.clone()], estimate.seed, 1.0)
        row.copy_((moved - THETA) * estimate.projected_gradient)
        draws.release()
    deviations = found - found.mean(0)
    error = (found.var(0) / ESTIMATES).sqrt()
    assert ((found.mean(0) - gradient).abs() <= 4.5 * error + 1e-12).all()
    spread = ((deviations**4).mean(0) - found.var(0) ** 2).div(ESTIMATES).sqrt()
    assert ((found.var(0) - variance).abs() <= 4.5 * spread + 1e-12).all()
    # two-sided and one-sided variances differ by more than the test's tolerance
    if estimator == "one-sided":
        other = rademacher_variance(0) if draws.name == "rademacher" else gaussian_variance(0)
        assert ((found.var(0) - other).abs() > 4.5 * spread).any()


def test_signs_are_signs_with_equal_odds() -> None:
    z = torch.zeros(200_000)
    RademacherNoise().add_([z], 3, 1.0)
    assert torch.equal(z.abs(), torch.ones_like(z))
    assert abs(float(z.mean())) < 4 / len(z) ** 0.5
    other = torch.zeros(200_000)
    RademacherNoise().add_([other], 4, 1.0)
    assert abs(float((z * other).mean())) < 4 / len(z) ** 0.5


@pytest.mark.parametrize("eps", [2.0**-10, 1e-3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_signs_are_symmetric_on_every_lattice(dtype: torch.dtype, eps: float) -> None:
    """An offset common to all weights would add up over a large model."""
    z = torch.empty(1000)
    RademacherNoise().draw_(z, 3)
    levels = Lattice(dtype, eps).noise(z).double()
    assert len(levels.unique()) == 2
    assert float(levels.min()) == -float(levels.max())
    assert float(levels.max()) == pytest.approx(eps, rel=0.03)


def vector(dtype: torch.dtype = torch.float32, size: int = 1000) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype)


def quadratic(theta: torch.Tensor) -> Callable[[], float]:
    scale = torch.linspace(1, 2, theta.numel(), dtype=torch.float64)
    return lambda: float((scale * theta.detach().double() ** 2).mean())


def sparse(theta: torch.Tensor) -> Noise:
    return SparseNoise(thresholds_of([theta], 0.75))


def sparse_signs(theta: torch.Tensor) -> Noise:
    return SparseNoise(thresholds_of([theta], 0.5), RademacherNoise())


ZO_SIGN_SGD = partial(MeZO, rule=sign)
METHODS: dict[str, tuple[Any, Callable[[torch.Tensor], Noise]]] = {
    "mezo": (MeZO, lambda _: TorchNoise(64)),
    "rademacher": (MeZO, lambda _: RademacherNoise()),
    "sign": (ZO_SIGN_SGD, lambda _: RademacherNoise()),
    "fzoo": (FZOO, lambda _: RademacherNoise()),
    "meazo": (MEAZO, lambda _: TorchNoise()),
    "sparse": (MeZO, sparse),
    "sparse-signs": (MeZO, sparse_signs),
    "sparse-fzoo": (FZOO, sparse_signs),
}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", METHODS)
def test_the_log_of_each_method_replays_bit_by_bit(
    method: str, dtype: torch.dtype, restore: Restore, decay: float, tmp_path: Path
) -> None:
    kind, make_noise = METHODS[method]
    theta = nn.Parameter(vector(dtype))
    start = theta.detach().clone()
    settings = {"perturbations": 3, "restore": restore, "weight_decay": decay}
    optimizer = kind([theta], lr=1e-2, eps=1e-2, noise=make_noise(theta), **settings)
    for _ in range(8):
        optimizer.step(quadratic(theta))
    optimizer.log.save(tmp_path / "run.json")
    again = start.clone()
    noise = make_noise(nn.Parameter(start))
    replay(StepLog.load(tmp_path / "run.json"), [again.requires_grad_()], noise)
    assert torch.equal(again, theta)
    assert not torch.equal(again, start)


@pytest.mark.parametrize("method", METHODS)
def test_each_method_resumes_bit_by_bit(method: str) -> None:
    kind, make_noise = METHODS[method]
    whole, halves = nn.Parameter(vector()), nn.Parameter(vector())
    settings = {"lr": 1e-2, "eps": 1e-2, "perturbations": 2}
    one = kind([whole], noise=make_noise(whole), **settings)
    first = kind([halves], noise=make_noise(halves), **settings)
    noise = make_noise(halves)  # of the initial weights
    for _ in range(6):
        one.step(quadratic(whole))
    for _ in range(3):
        first.step(quadratic(halves))
    second = kind([halves], noise=noise, seed=9, **settings)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        second.step(quadratic(halves))
    assert torch.equal(whole, halves)


@pytest.mark.parametrize("method", METHODS)
def test_each_method_minimises_the_quadratic(method: str) -> None:
    kind, make_noise = METHODS[method]
    theta = nn.Parameter(vector(size=40).double())
    lr = {FZOO: 2e-5, MEAZO: 4e-3, ZO_SIGN_SGD: 0.01}.get(kind, 0.02)
    settings = {"lr": lr, "eps": 1e-3, "perturbations": 4}
    optimizer = kind([theta], noise=make_noise(theta), **settings)
    small = theta.detach().abs() <= (
        torch.tensor(optimizer._weights[0].noise.thresholds)
        if method.startswith("sparse")
        else torch.inf
    )
    before = theta.detach().clone()
    for _ in range(300):
        optimizer.step(quadratic(theta))
    assert float(theta.detach()[small].square().sum()) < 0.6 * float(before[small].square().sum())
    assert torch.equal(theta.detach()[~small], before[~small])


@pytest.mark.parametrize("scale", [1.0, -1.0, 2.0**20, 2.0**-20, 0.0])
def test_steps_by_the_sign_move_every_weight_by_the_learning_rate(scale: float) -> None:
    """Downhill, whatever the scale of the loss, and not at all if both losses are equal."""
    theta = nn.Parameter(vector(size=40).double())
    before = theta.detach().clone()
    lr = 2.0**-7
    mezo = ZO_SIGN_SGD([theta], lr=lr, eps=1e-3, noise=RademacherNoise())
    mezo.step(lambda: scale * float(theta.detach().sum()))
    moved = theta.detach() - before
    if not scale:
        assert float(moved.abs().max()) < 1e-9  # rounding of the restore
        return
    assert torch.allclose(moved.abs(), torch.full_like(moved, lr))
    assert (float(moved.sum()) < 0) == (scale > 0)


def test_a_log_names_the_thresholds_it_needs() -> None:
    theta = nn.Parameter(vector())
    start = theta.detach().clone()
    mezo = MeZO([theta], lr=1e-2, eps=1e-2, noise=sparse(theta))
    mezo.step(quadratic(theta))
    for other in (None, SparseNoise([0.5])):
        with pytest.raises(UsageError, match=r"noise 'sparse-torch-\w{8}' cannot be replayed"):
            replay(mezo.log, [start], other)
    with pytest.raises(UsageError, match="2 thresholds for 1 parameters"):
        MeZO([theta], lr=1e-2, eps=1e-2, noise=SparseNoise([0.5, 0.5]))
    with pytest.raises(UsageError, match=r"sparsity = 1\.0: must be at least 0 and below 1"):
        thresholds_of([theta], 1.0)


def test_a_quarter_of_the_weights_moves_at_a_sparsity_of_three_quarters() -> None:
    theta = nn.Parameter(vector(size=70_003))  # no multiple of 8, more than a chunk
    before = theta.detach().clone()
    (threshold,) = thresholds_of([theta], 0.75)
    MeZO([theta], lr=1.0, eps=1e-2, noise=sparse(theta)).step(lambda: float(theta.sum()))
    moved = theta.detach() != before
    assert int(moved.sum()) == pytest.approx(70_003 / 4, rel=1e-3)
    assert not (moved & (before.abs() > threshold)).any()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_tensor_of_equal_weights_is_trained_as_a_whole(value: float) -> None:
    """As LoRA's B, which is zero: after a step no weight would be within a threshold of zero."""
    theta = nn.Parameter(torch.full((8,), value))
    mezo = MeZO([theta], lr=1e-2, eps=1e-2, noise=SparseNoise(thresholds_of([theta], 0.75)))
    for _ in range(3):
        before = theta.detach().clone()
        mezo.step(lambda: float((theta.detach() - 3).square().sum()))
        assert (theta.detach() != before).all()


def test_a_step_of_fzoo_is_its_formula() -> None:
    theta = nn.Parameter(vector(size=50).double())
    start, loss, calls = theta.detach().clone(), quadratic(theta), 0

    def counted() -> float:
        nonlocal calls
        calls += 1
        return loss()

    n, lr, eps = 5, 1e-4, 1e-2
    fzoo = FZOO([theta], lr=lr, eps=eps, perturbations=n, seed=3)
    assert fzoo.step(counted) == quadratic(start)()
    assert calls == n + 1
    assert fzoo.last is not None
    losses, step = [], torch.zeros_like(start)
    for estimate in fzoo.last.estimates:
        RademacherNoise().add_([u := torch.zeros_like(start)], estimate.seed, 1.0)
        losses.append(quadratic(start + eps * u)())
        step += (losses[-1] - quadratic(start)()) / (eps * n) * u
    expected = start - lr / statistics.stdev(losses) * step
    torch.testing.assert_close(theta.detach(), expected, rtol=1e-9, atol=1e-12)


def test_the_spread_of_losses_is_eps_times_the_norm_of_the_gradient() -> None:
    """So lr / eps is the length of FZOO's step along the gradient, whatever the loss's scale."""
    theta = nn.Parameter(THETA.clone())
    eps, n = 1e-5, 4000
    fzoo = FZOO([theta], lr=1e-15, eps=eps, perturbations=n)
    fzoo.step(lambda: float((CURVATURE * theta.detach() ** 2).sum() / 2))
    assert fzoo.last is not None
    spread = statistics.stdev(e.loss_plus for e in fzoo.last.estimates)
    assert spread / eps == pytest.approx(float(GRADIENT.norm()), rel=0.05)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize(("kind", "own"), [(FZOO, {"lr": 1e-4}), (MEAZO, {"floor": 1e-300})])
def test_the_scale_of_the_loss_does_not_change_the_steps(
    kind: Any, own: dict[str, float], factor: float
) -> None:
    moved = []
    for scale in (1.0, factor):
        theta = nn.Parameter(vector(size=50).double())
        method = kind([theta], **{"lr": 1e-3, "eps": 1e-3, **own})
        for _ in range(3):
            method.step(lambda: scale * quadratic(theta)())  # noqa: B023
        moved.append(theta.detach())
    torch.testing.assert_close(moved[0], moved[1], rtol=1e-6, atol=1e-9)


def test_losses_without_spread_make_no_step() -> None:
    theta = nn.Parameter(vector())
    before = theta.detach().clone()
    FZOO([theta], lr=1.0, eps=1e-3, restore="exact").step(lambda: 1.0)
    torch.testing.assert_close(theta.detach(), before, rtol=0, atol=1e-6)
    with pytest.raises(UsageError, match="perturbations n = 1: FZOO's rule needs at least 2"):
        FZOO([theta], lr=1.0, eps=1e-3, perturbations=1)


def test_a_step_of_meazo_is_its_formula() -> None:
    """The second moment is a sum with explicit weights here, instead of a recurrence."""
    theta = nn.Parameter(vector(size=50).double())
    lr, beta, n = 1e-2, 0.8, 3
    meazo = MEAZO([theta], lr=lr, eps=1e-3, beta=beta, floor=0.1, perturbations=n, seed=3)
    squares: list[float] = []
    for step in range(1, 6):
        before = theta.detach().clone()
        meazo.step(quadratic(theta))
        assert meazo.last is not None
        gradients = [estimate.projected_gradient for estimate in meazo.last.estimates]
        squares.append(statistics.fmean(gradients) ** 2)
        weights = [beta ** (step - i) for i in range(1, step + 1)]
        moment = sum(w * s for w, s in zip(weights, squares, strict=True)) / sum(weights)
        expected = before
        for estimate in meazo.last.estimates:
            TorchNoise().add_([u := torch.zeros_like(before)], estimate.seed, 1.0)
            expected = expected - lr / (moment**0.5 + 0.1) * estimate.projected_gradient / n * u
        torch.testing.assert_close(theta.detach(), expected, rtol=1e-9, atol=1e-9)


def test_a_failed_step_of_meazo_leaves_its_state() -> None:
    theta = nn.Parameter(vector(size=50).double())
    meazo = MEAZO([theta], lr=1e-3, eps=1e-3)
    meazo.step(quadratic(theta))
    moment = meazo.second_moment
    assert moment > 0
    with pytest.raises(ReproError):
        meazo.step(lambda: math.nan)
    assert meazo.second_moment == moment
    with pytest.raises(UsageError, match=r"the state has no second_moment"):
        meazo.load_state_dict(MeZO([theta], lr=1e-3, eps=1e-3).state_dict())
    assert "beta=0.99" in repr(meazo)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"beta": 1.0}, "beta = 1.0: must be at least 0 and below 1"), ({"floor": 0.0}, "floor")],
)
def test_settings_of_meazo_out_of_range_are_refused(setting: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MEAZO([nn.Parameter(vector())], lr=1e-3, eps=1e-3, **setting)
