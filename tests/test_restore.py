"""Perturbed weights come back: by bits on a lattice, within a bound by the papers' arithmetic."""

import copy
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from repro.core.errors import ReproError, UsageError
from repro.core.signals import Terminated, interrupts_raised
from repro.methods.elasticzo import ElasticZO
from repro.methods.lattice import Lattice
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise, PiecewiseNoise
from repro.methods.perturbed_weights import PerturbedWeights, Restore
from repro.methods.torch_noise import TorchNoise, perturb_
from repro.ondevice.noise import EngineNoise, EngineSigns, TorchNoiseOnEngine

HALF = [torch.bfloat16, torch.float16]
DTYPES = [*HALF, torch.float32]
EPS = 1e-3


def weights(dtype: torch.dtype, size: int = 2000, rms: float = 0.02) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(size, generator=generator, dtype=torch.float64) * rms).to(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.detach().view({2: torch.int16, 4: torch.int32}[x.element_size()])


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(bits(one), bits(other))  # tells -0.0 from 0.0


def relative_drift(dtype: torch.dtype, restore: Restore, steps: int = 1000) -> float:
    """RMS change of weights that 1000 estimates left, no update made, over their RMS."""
    theta = weights(dtype)
    perturbed = PerturbedWeights([theta], restore, EPS, None, TorchNoise())
    perturbed.prepare()
    start = theta.to(torch.float64)
    for seed in range(steps):
        for offset in (1, -1, 0):
            perturbed.perturb(seed, offset)
    return float((theta.to(torch.float64) - start).norm() / start.norm())


# the figures of MeZO's docstring
@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        (torch.float32, 1.0e-6, 3e-6),
        (torch.float16, 1.2e-2, 1.9e-2),
        (torch.bfloat16, 0.10, 0.15),
    ],
)
def test_the_papers_arithmetic_drifts(dtype: torch.dtype, least: float, most: float) -> None:
    assert least < relative_drift(dtype, "rounded") < most


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_on_the_lattice_do_not_drift(dtype: torch.dtype) -> None:
    assert relative_drift(dtype, "exact", steps=100) == 0


@pytest.mark.parametrize("eps", [1e-5, 2.0**-10, 1e-3, 2.0])
def test_every_bfloat16_weight_survives_every_level_of_noise(eps: float) -> None:
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    values = every.view(torch.bfloat16).float()
    lattice = Lattice(torch.bfloat16, eps)
    theta = torch.unique(lattice.round(values[values.abs() < 1e30]))
    assert torch.equal(theta.bfloat16().float(), theta)
    assert torch.equal(lattice.round(theta), theta)
    levels = torch.unique(lattice.noise(torch.linspace(-9, 9, 20_000)))
    assert len(levels) == 512
    for noise in levels.tolist():
        perturbed = (theta + noise).bfloat16()
        assert same_bits(lattice.round(perturbed.float() - noise), theta)


def test_initial_ties_go_down_and_others_to_even() -> None:
    """Replays of logs depend on where the initial weights go."""
    lattice = Lattice(torch.bfloat16, EPS)
    spacing = float(lattice.spacing(torch.zeros(1)))
    steps = torch.tensor([0.5, 1.5, 2.5, 3.25, 3.75])
    x = spacing * torch.cat([steps, -steps])
    theta = x.bfloat16()
    assert torch.equal(theta.float(), x)
    PerturbedWeights([theta], "exact", EPS, None, TorchNoise()).prepare()
    assert (theta.float() / spacing).tolist() == [0, 1, 2, 3, 4, -1, -2, -3, -3, -4]
    assert (lattice.round(x) / spacing).tolist() == [0, 2, 2, 3, 4, 0, -2, -2, -3, -4]


def test_an_eps_whose_spacing_has_no_inverse_is_refused() -> None:
    assert Lattice(torch.bfloat16, 4e-37).bound > 0
    with pytest.raises(UsageError, match="needs more than"):
        Lattice(torch.bfloat16, 1e-37)


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    sizes=st.lists(
        st.floats(-1e4, 1e4, allow_nan=False, width=16, allow_subnormal=False), min_size=1
    ),
    exponent=st.integers(-8, 2),
    eps=st.floats(2e-5, 10),
    seed=st.integers(0, (1 << 32) - 1),
)
def test_weights_come_back_bit_by_bit(
    dtype: torch.dtype, sizes: list[float], exponent: int, eps: float, seed: int
) -> None:
    theta = (torch.tensor(sizes, dtype=torch.float64) * 2.0**exponent).to(dtype)
    perturbed = PerturbedWeights([theta], "exact", eps, None, TorchNoise())
    perturbed.prepare()
    start = theta.clone()
    perturbed.perturb(seed, 1)
    perturbed.perturb(seed, -1)
    perturbed.restore()
    assert same_bits(theta, start)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("make_noise", [TorchNoise, TorchNoiseOnEngine, EngineNoise, EngineSigns])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads_makes_the_same_walk(
    dtype: torch.dtype, make_noise: Callable[[], Noise]
) -> None:
    walked = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        parameters = [weights(dtype, size) for size in (5, 700_000, 65_536)]
        perturbed = PerturbedWeights(parameters, "exact", EPS, None, make_noise())
        perturbed.prepare()
        perturbed.perturb(3, 1)
        perturbed.update([(3, 1e-4)])
        walked.append(parameters)
    for others in walked[1:]:
        assert all(map(same_bits, walked[0], others))


@pytest.mark.parametrize("dtype", DTYPES)
def test_settling_costs_about_what_rounding_to_the_format_does(dtype: torch.dtype) -> None:
    theta = weights(torch.float64)
    settled = theta.to(dtype)
    PerturbedWeights([settled], "exact", EPS, None, TorchNoise()).prepare()
    rounding = (theta.to(dtype).to(torch.float64) - theta).norm()
    assert (settled.to(torch.float64) - theta).norm() < 2.5 * rounding


def test_stochastic_rounding_keeps_the_mean() -> None:
    lattice = Lattice(torch.bfloat16, EPS)
    x = torch.tensor([0.0123, -0.1, 1e-5, 1.0])[:, None].expand(4, 100_000)
    uniform = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    rounded = lattice.round_up_above(x, uniform).to(torch.float64)
    deviation = lattice.spacing(x)[:, 0].to(torch.float64) / 2 / math.sqrt(x.shape[1])
    assert ((rounded.mean(dim=1) - x[:, 0]).abs() <= 5 * deviation).all()
    assert torch.equal(rounded[3], torch.ones(x.shape[1], dtype=torch.float64))


def test_noise_is_gaussian_to_a_level() -> None:
    normal = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    for dtype in DTYPES:
        noise = Lattice(dtype, EPS).noise(normal).to(torch.float64) / EPS
        assert abs(noise.mean()) < 4 / math.sqrt(200_000)
        assert abs(noise.std() - normal.std()) < 1e-3
        assert (noise - normal).abs().median() < 0.02


@pytest.mark.parametrize("dtype", HALF)
def test_updates_follow_those_of_float64(dtype: torch.dtype) -> None:
    """Updates far below the format's spacing add up: rounding is a random walk around their sum."""
    steps = 300
    lattice = Lattice(dtype, EPS)
    spacing = float(lattice.spacing(weights(torch.float32)).pow(2).mean().sqrt())

    def distance(restore: Restore) -> float:
        theta = nn.Parameter(weights(dtype))
        mezo = MeZO([theta], lr=spacing / 50 / math.sqrt(len(theta)), eps=EPS, restore=restore)
        reference = theta.detach().to(torch.float64)
        for _ in range(steps):
            mezo.step(lambda: float(theta.detach().to(torch.float64).sum()))
            ((seed, gradient, lr),) = mezo.log.entries[-1:]
            perturb_([z := torch.zeros(len(theta))], seed, 1.0)
            z = lattice.noise(z) / EPS if restore == "exact" else z
            reference -= lr * gradient * z.to(torch.float64)
        expected = reference - weights(torch.float64)
        assert expected.pow(2).mean().sqrt() > spacing / 10  # one update is a fiftieth
        moved = theta.detach().to(torch.float64) - weights(torch.float64)
        if restore == "exact":  # on average along the updates
            assert 0.5 < float(moved @ expected / (expected @ expected)) < 1.5
        return float((theta.detach().to(torch.float64) - reference).pow(2).mean().sqrt())

    # up or down with odds f : 1 - f has a variance below f squared spacings, f = 1/50 a step
    assert distance("exact") < math.sqrt(steps / 50) * spacing
    assert distance("rounded") > 3 * distance("exact")


@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_an_update_with_decay_is_that_of_float64(restore: Restore) -> None:
    """(1 - decay) theta - rate_1 z(1) - rate_2 z(2), with a decay of a half."""
    theta, rates, decay = weights(torch.bfloat16, 20_000), [(1, 0.01), (2, -0.02)], 0.5
    perturbed = PerturbedWeights([theta], restore, EPS, None, TorchNoise())
    perturbed.prepare()
    expected = theta.double() * (1 - decay)
    for seed, rate in rates:
        perturb_([z := torch.zeros(len(theta))], seed, 1.0)
        expected -= rate * z.double()
    perturbed.perturb(1, -1)  # the first pass of the update also restores
    perturbed.update(rates, decay)
    error = theta.double() - expected
    # of the format's 8 bits; each of the passes rounds
    assert error.norm() < 2**-6 * expected.norm()
    assert error.mean().abs() < 2**-6 * expected.std() / 20_000**0.5 * 4


def test_a_log_of_an_unknown_walk_is_refused(tmp_path: Path) -> None:
    StepLog(EPS, 1, None, restore="sideways").save(tmp_path / "run.npz")  # type: ignore[arg-type]
    with pytest.raises(ReproError, match=r"not a log of zeroth-order steps.*sideways"):
        StepLog.load(tmp_path / "run.npz")


def failing(theta: torch.Tensor, call: int, error: BaseException) -> Callable[[], float]:
    """A loss that raises ``error`` when it is called the ``call``-th time."""
    calls = 0

    def loss() -> float:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error
        return float(theta.detach().float().sum())

    return loss


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_after_an_exception_the_weights_are_those_from_before(
    dtype: torch.dtype, call: int, error: BaseException
) -> None:
    theta = nn.Parameter(weights(dtype))
    mezo = MeZO([theta], lr=1e-3, eps=EPS, perturbations=3, restore="exact")
    mezo.step(failing(theta, 0, error))
    before, log = theta.detach().clone(), bytes(mezo.log.data)
    with pytest.raises(type(error)) as raised:
        mezo.step(failing(theta, call, error))
    assert same_bits(theta, before)
    assert mezo.log.data == log
    assert not hasattr(raised.value, "__notes__")  # the weights are not said to be lost


@pytest.mark.parametrize("call", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_after_an_exception_rounded_weights_are_within_three_roundings_an_estimate(
    dtype: torch.dtype, call: int
) -> None:
    theta = nn.Parameter(weights(dtype))
    before = theta.detach().clone()
    mezo = MeZO([theta], lr=1e-3, eps=EPS, perturbations=3, restore="rounded")
    with pytest.raises(RuntimeError):
        mezo.step(failing(theta, call, RuntimeError()))
    ulp = (before.to(torch.float64).abs() + 6 * EPS) * torch.finfo(dtype).eps
    roundings = 3 * -(-call // 2)
    change = (theta.detach().to(torch.float64) - before.to(torch.float64)).abs()
    assert (change <= roundings * ulp / 2).all()
    assert change.any()


def test_elasticzo_restores_its_head_bit_by_bit() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))
    elastic = ElasticZO(model, 2, lr=1e-2, eps=EPS, restore="exact")
    x = torch.randn(8, 20)
    elastic.step(lambda: model(x).square().mean())
    before = copy.deepcopy(model)
    calls = 0

    def loss() -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return model(x).square().mean()

    with pytest.raises(KeyboardInterrupt):
        elastic.step(loss)
    for parameter, expected in zip(model.parameters(), before.parameters(), strict=True):
        assert same_bits(parameter, expected)
        assert parameter.requires_grad
        assert parameter.grad is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("interrupted", [1, 2, 3])
def test_an_interrupt_within_a_pass_waits_for_its_end(
    interrupted: int, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    theta = nn.Parameter(weights(torch.bfloat16))
    mezo = MeZO([theta], lr=1e-3, eps=EPS, restore="exact", chunk=100)
    before = theta.detach().clone()
    passes = 0
    pieces = PiecewiseNoise._pieces

    def with_interrupt(self: PiecewiseNoise, *args: Any) -> Any:
        nonlocal passes
        passes += 1
        for index, piece in enumerate(pieces(self, *args)):
            if (passes, index) == (interrupted, 5):
                signal.raise_signal(number)
            yield piece

    monkeypatch.setattr(PiecewiseNoise, "_pieces", with_interrupt)
    with interrupts_raised():
        handler = signal.getsignal(number)
        with pytest.raises(KeyboardInterrupt) as raised:
            mezo.step(lambda: float(theta.detach().float().sum()))
        assert signal.getsignal(number) is handler
    assert isinstance(raised.value, Terminated) == (number == signal.SIGTERM)
    if interrupted < 3:
        assert same_bits(theta, before)
        assert not mezo.log.data
    else:  # the update was under way: it is made, and logged
        replay(mezo.log, [again := before.clone()])
        assert same_bits(theta, again)
        assert not torch.equal(theta, before)


@pytest.mark.parametrize("interrupted", [3, 2])
def test_ctrl_c_leaves_elasticzo_with_both_parts_updated_or_none(
    interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))
    elastic = ElasticZO(model, 2, lr=1e-2, eps=EPS, restore="exact")
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x, passes, pieces = torch.randn(8, 20), 0, PiecewiseNoise._pieces

    def with_ctrl_c(self: PiecewiseNoise, *args: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == interrupted:
            signal.raise_signal(signal.SIGINT)
        return pieces(self, *args)

    monkeypatch.setattr(PiecewiseNoise, "_pieces", with_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        elastic.step(lambda: model(x).square().mean())
    moved = [not same_bits(p, p0) for p, p0 in zip(model.parameters(), before, strict=True)]
    assert moved == [interrupted == 3] * 4
    assert bool(elastic.log.data) == (interrupted == 3)


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor that does not live in ``known``."""

    def __init__(self, known: torch.Tensor) -> None:
        super().__init__()
        self.known = known.untyped_storage().data_ptr()
        self.nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            storage = result.untyped_storage()
            if storage.data_ptr() != self.known:
                self.nbytes = max(self.nbytes, storage.nbytes())
        return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_passes_take_chunks_of_memory_only(dtype: torch.dtype) -> None:
    theta, chunk = weights(dtype, size=10_000), 1000
    perturbed = PerturbedWeights([theta], "exact", EPS, chunk, TorchNoise(chunk))
    with LargestTensor(theta) as largest:
        perturbed.prepare()
        perturbed.perturb(1, 1)
        perturbed.perturb(1, -1)
        perturbed.update([(1, 1e-3)])
    assert 0 < largest.nbytes <= chunk * (8 if dtype is torch.float32 else 4)


@pytest.mark.parametrize(
    ("dtype", "settings", "message"),
    [
        (torch.float32, {"restore": "both"}, "restore = 'both': must be one of rounded, exact"),
        (torch.float64, {}, "restore = 'exact' with parameters of torch.float64: must be one of"),
        (torch.float16, {"eps": 1e-6}, "eps = 1e-06 with torch.float16: .* more than 7.6e-06"),
    ],
)
def test_what_cannot_be_restored_exactly_is_refused(
    dtype: torch.dtype, settings: dict[str, Any], message: str
) -> None:
    theta = nn.Parameter(torch.full((3,), 0.1, dtype=dtype))
    with pytest.raises(UsageError, match=message):
        MeZO([theta], **{"lr": 1e-3, "eps": EPS, "restore": "exact", **settings})
    assert torch.equal(theta.detach(), torch.full((3,), 0.1, dtype=dtype))
