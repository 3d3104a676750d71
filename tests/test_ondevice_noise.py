"""The engine's noise for PyTorch's weights: its numbers, its roundings, and MeZO along it."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.lattice import Lattice
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.noise import LatticeStep, PiecewiseNoise
from repro.methods.perturbed_weights import PerturbedWeights, Restore
from repro.methods.sparse import SparseNoise, thresholds_of
from repro.methods.step_info import GradientEstimate
from repro.methods.torch_noise import TorchNoise
from repro.ondevice.build import EngineError
from repro.ondevice.noise import EngineNoise, EngineSigns, TorchNoiseOnEngine

PIECE = 4096
EPS = 1e-3
SIZES = (5, 4096, 1, 4097, 70_000)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FAR = (1 << 32) - PIECE

pytestmark = pytest.mark.usefixtures("engine", "one_thread")


def move_(
    noise: PiecewiseNoise, weights: torch.Tensor, eps: float, before: int, after: int
) -> None:
    step = LatticeStep(eps, before, after, is_update=False)
    noise.step_on_lattice_([weights], 7, step, len(weights))


def update_(
    noise: PiecewiseNoise,
    weights: torch.Tensor,
    eps: float,
    before: int,
    rate: float,
    seed: int = 7,
) -> None:
    step = LatticeStep(eps, before, -rate / eps, is_update=True)
    noise.step_on_lattice_([weights], seed, step, len(weights))


def mix(x: int) -> int:
    """SplitMix64 (Steele et al. 2014)."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def words(key: int, counters: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = (counters + key) % 2**32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
    x = ((x ^ (x >> 15) ^ (key >> 32)) * 0x846CA68B) % 2**32
    return x ^ (x >> 16)


def reference(seed: int, first: int, count: int) -> np.ndarray[Any, Any]:
    """docs/ondevice.md in float64: z[first], ..., first being a multiple of 32."""
    parts = []
    for start in range(first, first + count, 32):
        key = mix(mix(mix(seed) ^ (start >> 32)))
        here = np.array([start % 2**32 + i for i in range(32)], dtype=object)
        w = words(key, here).astype(np.float64)
        u = (np.floor(w[:16] / 2**8) + 0.5).astype(np.float32) / 2.0**24  # 24 bits, near 1 too
        radius = np.sqrt(-2 * np.log(u.astype(np.float64)))
        angle = 2 * np.pi * w[16:] / 2**32
        parts += [radius * np.cos(angle), radius * np.sin(angle)]
    return np.concatenate(parts)[:count]


def reference_signs(seed: int, first: int, count: int) -> np.ndarray[Any, Any]:
    """docs/ondevice.md number by number: z[first], ..."""
    numbers = np.arange(first, first + count)
    key = np.array([mix(mix(mix(seed) ^ int(i >> 32))) for i in numbers], dtype=object)
    low = numbers % 2**32
    w = words(key, (low // 512 * 16 + low % 16).astype(object)).astype(np.int64)
    return np.where(w >> 31 - low % 512 // 16 & 1, -1.0, 1.0) * (1 - 2.0**-24)


REFERENCES = {EngineNoise: reference, EngineSigns: reference_signs}


def drawn(seed: int, count: int, make: type[EngineNoise] = EngineNoise) -> torch.Tensor:
    z = torch.empty(count)
    make().draw_(z, seed)
    return z


def parameters(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(size, generator=generator) * 0.02).to(dtype) for size in SIZES]


def added(make: type[EngineNoise], dtype: torch.dtype, *settings: str) -> list[torch.Tensor]:
    theta = parameters(dtype)
    make(*settings).add_(theta, 7, 1e-3)
    return theta


@pytest.mark.parametrize(("seed", "first"), [(0, 0), (2**32 - 1, 3 * PIECE), (5, FAR)])
@pytest.mark.parametrize("make", REFERENCES)
def test_numbers_are_those_of_the_documentation(
    engine: Any, make: type[EngineNoise], seed: int, first: int
) -> None:
    z = np.empty(2 * PIECE - 3, np.float32)
    engine.Noise(make.distribution, "auto").draw(z, seed, first)
    np.testing.assert_allclose(z, REFERENCES[make](seed, first, len(z)), atol=2e-6)


def test_noise_is_standard_normal() -> None:
    z = drawn(12345, 1 << 20).double().numpy()
    n = len(z)
    assert abs(z.mean()) < 4 / n**0.5
    assert abs(z.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs(stats.skew(z)) < 4 * (6 / n) ** 0.5
    assert abs(stats.kurtosis(z)) < 4 * (24 / n) ** 0.5
    assert stats.kstest(z, "norm").pvalue > 1e-3
    other = drawn(12346, n).double().numpy()
    for lag in (1, 16, 32, PIECE):
        assert abs(np.mean(z[:-lag] * z[lag:])) < 4 / n**0.5
    assert abs(np.mean(z * other)) < 4 / n**0.5


def test_signs_are_fair_and_independent() -> None:
    z = drawn(12345, 1 << 20, EngineSigns).double()
    assert set(z.unique().tolist()) == {1 - 2.0**-24, 2.0**-24 - 1}
    n = len(z)
    other = drawn(12346, n, EngineSigns).double()
    products = [z, z * other, *(z[:-lag] * z[lag:] for lag in (1, 16, 32, 512, PIECE))]
    assert max(abs(float(product.mean())) for product in products) < 4 / n**0.5
    by_bit = z.view(-1, 32, 16).mean((0, 2))  # every bit of the words
    assert float(by_bit.abs().max()) < 5 / (n / 32) ** 0.5


def test_each_parameter_begins_at_a_piece_of_its_own() -> None:
    theta = [torch.zeros(size) for size in SIZES]
    EngineNoise().add_(theta, 7, 1.0)
    first = 0
    z = drawn(7, 100_000)
    for own in theta:
        assert torch.equal(own, z[first : first + own.numel()])
        first += -(-own.numel() // PIECE) * PIECE


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", REFERENCES)
def test_the_same_bits_for_any_threads_and_instructions(
    engine: Any, make: type[EngineNoise], dtype: torch.dtype
) -> None:
    expected = added(make, dtype)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert all(map(torch.equal, added(make, dtype), expected))
    for name in engine.instruction_sets():
        assert all(map(torch.equal, added(make, dtype, name), expected))


@pytest.mark.parametrize("scale", [1e-3, -2e-3, 3.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_rounded_to_float32_and_then_to_the_format(
    dtype: torch.dtype, scale: float
) -> None:
    theta = parameters(dtype)[-1]
    z = drawn(7, theta.numel())
    moved = theta.clone()
    EngineNoise().add_([moved], 7, scale)
    product = (z.double() * float(np.float32(scale))).float()
    exact = theta.double() + product.double()
    expected = nearest(exact.float().double(), dtype)
    assert torch.equal(moved.double(), expected)
    by_torch = theta.clone().add_(z, alpha=scale)  # may round product and sum at once
    assert (moved == by_torch).double().mean() > (0.7 if dtype == torch.float32 else 0.99)
    largest = torch.stack([exact, product.double(), theta.double()]).abs().amax(0)
    ulp = torch.finfo(dtype).eps * 2.0 ** torch.floor(torch.log2(largest.clamp(min=2**-14)))
    assert ((moved.double() - by_torch.double()).abs() <= ulp).all()


def nearest(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 rounded to the nearest number of a format, ties to even, by arithmetic on them."""
    info = torch.finfo(dtype)
    spacing = info.eps * 2.0 ** torch.floor(torch.log2(x.abs().clamp(min=info.tiny)))
    return torch.round(x / spacing) * spacing


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_weight_is_widened_and_narrowed_as_pytorch_does(dtype: torch.dtype) -> None:
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    moved = every.clone()
    EngineNoise().add_([moved], 3, 0.0)
    assert torch.equal(moved[~every.isnan()], every[~every.isnan()])
    assert torch.equal(moved.isnan(), every.isnan())
    finite = every[every.isfinite()]
    large = finite.clone()
    EngineNoise().add_([large], 3, float(torch.finfo(dtype).max) / 4)
    sums = finite.float() + drawn(3, len(finite)) * np.float32(float(torch.finfo(dtype).max) / 4)
    assert torch.equal(large, sums.to(dtype))  # some are infinite


HALVES = [torch.bfloat16, torch.float16]


def thresholds(seed: int, count: int) -> torch.Tensor:
    """The random numbers of an update: 24 bits of the words of purpose 4."""
    key = mix(mix(mix(seed)) ^ 4)
    w = words(key, np.array(range(count), dtype=object)).astype(np.float64)
    return torch.from_numpy(np.floor(w / 2**8) / 2**24).float()


@pytest.mark.parametrize("eps", [1e-3, 0.3])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("make", REFERENCES)
def test_exact_passes_are_those_of_the_lattice(
    engine: Any, make: type[EngineNoise], dtype: torch.dtype, eps: float
) -> None:
    lattice = Lattice(dtype, eps)
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    weights = torch.cat([every[every.abs() < 1e3], parameters(dtype)[-1]])
    weights = lattice.round(weights.to(lattice.wide)).to(dtype)
    z = lattice.noise(drawn(7, len(weights), make))
    for name in engine.instruction_sets():
        noise, moved = make(name), weights.clone()
        move_(noise, moved, eps, 0, 1)
        assert torch.equal(moved, (lattice.theta(weights, z, 0) + z).to(dtype))
        move_(noise, moved, eps, 1, -1)
        assert torch.equal(moved, (lattice.theta(weights, z, 0) - z).to(dtype))
        move_(noise, moved, eps, -1, 0)
        assert torch.equal(moved, weights)
        update_(noise, moved, eps, 0, 0.7 * eps)
        sums = weights.float() + z * np.float32(-0.7 * eps / lattice.eps)  # no fused operation
        expected = lattice.round_up_above(sums, thresholds(7, len(z)))
        assert torch.equal(moved, expected.to(dtype))


@pytest.mark.parametrize(
    ("seed", "chunk"), [(7, None), (7, 4096), (2**32 - 2, None), (2**32 - 2, 33)]
)
@pytest.mark.parametrize("make", REFERENCES)
def test_chunks_of_all_parameters_have_seeds_in_a_row(
    make: type[EngineNoise], seed: int, chunk: int | None
) -> None:
    """As ``PiecewiseNoise`` counts them, whose passes PyTorch's operators make."""
    noise = make()
    weights = [part.clone() for dtype in DTYPES for part in (*parameters(dtype), torch.empty(0))]
    eps, expected = 1e-2, [part.clone() for part in weights]
    PerturbedWeights(weights, "exact", eps, chunk, noise).prepare()
    PerturbedWeights(expected, "exact", eps, chunk, noise).prepare()
    for before, after in ((0, 1), (1, 0)):
        step = LatticeStep(eps, before, after, is_update=False)
        noise.step_on_lattice_(weights, seed, step, chunk)
        by_operators(noise, expected, seed, step, chunk)
        assert all(map(torch.equal, weights, expected))


def by_operators(
    noise: EngineNoise, weights: list[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
) -> None:
    size = chunk or 65_536
    pieces = [piece for part in weights for piece in part.view(-1).split(size) if len(part)]
    for index, piece in enumerate(pieces):
        z = torch.empty(len(piece))
        noise.draw_(z, (seed + index) % 2**32)
        step.apply(Lattice(piece.dtype, step.eps), piece, z)


@pytest.mark.parametrize("eps", [1e-3, 0.3])
@pytest.mark.parametrize("dtype", HALVES)
def test_the_engine_walks_along_pytorch_s_noise_as_its_operators_do(
    engine: Any, dtype: torch.dtype, eps: float
) -> None:
    lattice = Lattice(dtype, eps)
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    weights = torch.cat([every[every.abs() < 1e3], parameters(dtype)[-1]])
    weights = lattice.round(weights.to(lattice.wide)).to(dtype)
    alone, expected = TorchNoise(), weights.clone()
    move_(alone, expected, eps, 0, 1)
    perturbed = expected.clone()
    assert not torch.equal(perturbed, weights)
    move_(alone, expected, eps, 1, 0)
    assert same_bits(expected, weights)
    update_(alone, expected, eps, 0, 0.7 * eps)
    for name in engine.instruction_sets():
        noise, moved = TorchNoiseOnEngine(instructions=name), weights.clone()
        move_(noise, moved, eps, 0, 1)
        assert same_bits(moved, perturbed)
        update_(noise, moved, eps, 1, 0.7 * eps)
        assert same_bits(moved, expected)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("noise", ["EngineSigns", "TorchNoiseOnEngine"])
def test_weights_that_others_changed_are_rounded_to_the_lattice_again(
    noise: str, *, replaced: bool
) -> None:
    """A pass from theta takes the weights for lattice points, which new values are not."""
    model = Tied(torch.bfloat16)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    make = {"EngineSigns": EngineSigns, "TorchNoiseOnEngine": TorchNoiseOnEngine}[noise]
    mezo = MeZO(trained, lr=1e-2, eps=EPS, noise=make())
    mezo.step(loss_of(model))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trained:
            values = (torch.randn(parameter.shape, generator=generator) * 0.02).bfloat16()
            if replaced:
                parameter.data = values
            else:
                parameter.copy_(values)
    lattice = Lattice(torch.bfloat16, EPS)
    points = [lattice.round_up_above(p.detach().float(), 0.5).bfloat16() for p in trained]
    assert not all(map(same_bits, points, trained))
    mezo.param_groups[0]["lr"] = 0.0  # perturbed and restored, and updated by nothing
    mezo.step(loss_of(model))
    assert all(map(same_bits, points, trained))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.int16), other.view(torch.int16))  # tells -0.0 from 0.0


@pytest.mark.parametrize("chunk", [None, 700])
def test_a_run_helped_by_the_engine_is_replayed_without(engine: Any, chunk: int | None) -> None:
    assert engine
    model = Tied(torch.bfloat16)
    base = [parameter.detach().clone() for parameter in model.parameters()]
    noise = TorchNoiseOnEngine(chunk)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    mezo = MeZO(trained, lr=1e-2, eps=EPS, chunk=chunk, restore="exact", noise=noise)
    for _ in range(3):
        mezo.step(loss_of(model))
    twin = Tied(torch.bfloat16)
    for parameter, start in zip(twin.parameters(), base, strict=True):
        parameter.data.copy_(start)
    replay(mezo.log, [parameter for parameter in twin.parameters() if parameter.requires_grad])
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        assert same_bits(one, other)


def test_updates_below_the_spacing_count_by_their_mean() -> None:
    lattice = Lattice(torch.bfloat16, EPS)
    start, total = torch.full((1 << 16,), 0.5, dtype=torch.bfloat16), torch.zeros(1 << 16)
    for seed in range(20):
        weights = start.clone()
        update_(EngineNoise(), weights, EPS, 0, -1e-5, seed)
        total += (weights.float() - 0.5) * lattice.noise(drawn(seed, len(weights))).sign()
    size = float(np.sqrt(2 / np.pi))  # of a normal number, by mean
    assert float(total.mean()) / 20 == pytest.approx(1e-5 * size, rel=0.2)


class Tied(nn.Module):
    """An embedding that is also the head, and a layer that is not trained."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 8, dtype=dtype)
        self.frozen = nn.Linear(8, 8, dtype=dtype).requires_grad_(requires_grad=False)
        self.head = nn.Linear(8, 11, bias=False, dtype=dtype)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(torch.tanh(self.frozen(self.embedding(tokens))))
        return out


TOKENS, LABELS = torch.arange(11), (torch.arange(11) + 1) % 11


def loss_of(model: nn.Module) -> Callable[[], torch.Tensor]:
    return lambda: cross_entropy(model(TOKENS).float(), LABELS)


@pytest.mark.parametrize("make", REFERENCES)
@pytest.mark.parametrize("perturbations", [1, 3])
@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_run_is_replayed_bit_by_bit(
    dtype: torch.dtype,
    restore: Restore,
    perturbations: int,
    make: type[EngineNoise],
    tmp_path: Path,
) -> None:
    model, start = Tied(dtype), Tied(dtype)
    mezo = MeZO(
        model.parameters(), lr=0.05, eps=1e-2, perturbations=perturbations, restore=restore,
        noise=make(),
    )  # fmt: skip
    for _ in range(20):
        mezo.step(loss_of(model))
    mezo.log.save(tmp_path / "log.npz")
    log = StepLog.load(tmp_path / "log.npz")
    assert log.noise == make.name
    replay(log, [start.embedding.weight.detach()], make())
    assert torch.equal(start.embedding.weight, model.embedding.weight)
    assert torch.equal(start.frozen.weight, model.frozen.weight)
    assert not torch.equal(Tied(dtype).embedding.weight, model.embedding.weight)


@pytest.mark.parametrize(
    ("dtype", "sha256"),
    [
        (torch.bfloat16, "49564add93a7ebe0d12f52a2fa0a2e3e7f977eae0dd845aa80cd7e3c808ebc3f"),
        (torch.float16, "d1b1af1def34f0855771b95b2c84a064f4ba907c4ea0d8f69910c060a4b6f6c5"),
    ],
)
def test_replays_give_the_weights_of_earlier_versions(dtype: torch.dtype, sha256: str) -> None:
    """The hashes are those of commit 0324d40, before the engine's passes were rewritten."""
    log = StepLog(EPS, 1, 1000, restore="exact", noise="engine")
    for step in range(5):
        log.append([GradientEstimate(2**32 - 5 + step, 0.0, 0.0, (-1) ** step * 3.0)], 1e-3)
    spread = (torch.arange(5000) * 7919 % 10007).float() / 10007 - 0.5
    weights = (spread * 0.1).to(dtype)
    replay(log, [weights], EngineNoise())
    assert hashlib.sha256(weights.view(torch.int16).numpy().tobytes()).hexdigest() == sha256


def test_a_replay_wants_the_noise_of_the_run() -> None:
    model = Tied()
    mezo = MeZO(model.parameters(), lr=0.05, eps=1e-2, noise=EngineNoise())
    mezo.step(loss_of(model))
    with pytest.raises(UsageError, match="noise 'engine' cannot be replayed with 'torch'"):
        replay(mezo.log, [model.embedding.weight.detach()])
    with pytest.raises(UsageError, match="noise 'torch' cannot be replayed with 'engine'"):
        replay(StepLog(1e-2, 1, None), [model.embedding.weight.detach()], EngineNoise())
    other = MeZO(model.parameters(), lr=0.05, eps=1e-2)
    with pytest.raises(UsageError, match=r"from a run with .*noise = 'engine' instead of"):
        other.load_state_dict(mezo.state_dict())


@pytest.mark.parametrize("make", [EngineNoise, EngineSigns])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_noise_is_the_engine_s_at_small_weights(
    dtype: torch.dtype, make: Callable[[], EngineNoise]
) -> None:
    start = torch.randn(5001, generator=torch.Generator().manual_seed(0)).to(dtype)
    sparse, dense = start.clone(), start.clone()
    noise = SparseNoise([0.5], make())
    noise.add_([sparse], 7, 1e-2)
    make().add_([dense], 7, 1e-2)
    small = start.abs() <= 0.5
    assert torch.equal(sparse[small], dense[small])
    assert torch.equal(sparse[~small], start[~small])


@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_run_along_sparse_noise_of_the_engine_is_replayed(
    dtype: torch.dtype, restore: Restore
) -> None:
    start = torch.randn(5001, generator=torch.Generator().manual_seed(0)).to(dtype)
    trained, again = (nn.Parameter(start.clone()) for _ in range(2))
    noise = [SparseNoise(thresholds_of([trained], 0.75), EngineNoise()) for _ in range(2)]
    mezo = MeZO([trained], lr=1e-2, eps=EPS, chunk=700, noise=noise[0], restore=restore)
    placed = trained.detach().clone()  # exact restores put the weights on a lattice
    for _ in range(3):
        mezo.step(lambda: (trained.float() ** 2).sum())
    replay(mezo.log, [again], noise=noise[1])
    assert torch.equal(trained, again)
    large = placed.abs().float() > noise[0].thresholds[0]
    assert torch.equal(trained[large], placed[large])
    assert not torch.equal(trained, placed)


def test_an_estimate_is_along_the_documented_noise() -> None:
    theta = torch.zeros(5000, requires_grad=True)
    slope = torch.linspace(-1, 1, 5000)
    mezo = MeZO([theta], lr=1e-3, eps=1e-3, noise=EngineNoise())
    mezo.step(lambda: (slope.double() * theta.double()).sum())
    assert mezo.last is not None
    (estimate,) = mezo.last.estimates
    z = reference(estimate.seed, 0, 5000)
    expected = float(slope.double().numpy() @ z)
    assert estimate.projected_gradient == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(theta.detach(), -1e-3 * expected * z, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_weights_come_back_after_an_exception(dtype: torch.dtype, restore: Restore) -> None:
    model = Tied(dtype)
    mezo = MeZO(model.parameters(), lr=0.05, eps=1e-2, restore=restore, noise=EngineNoise())
    before = model.embedding.weight.detach().clone()
    calls = iter([1.0])
    with pytest.raises(StopIteration):
        mezo.step(lambda: next(calls))
    after = model.embedding.weight.detach()
    if restore == "exact":
        assert torch.equal(after, before)
    else:  # three roundings of sums no larger than this
        largest = float(before.abs().max()) + 6 * 1e-2
        assert float((after - before).abs().max()) <= 1.5 * torch.finfo(dtype).eps * largest


def test_the_head_of_elasticzo_moves_along_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    inputs, labels = torch.randn(32, 8), torch.arange(32) % 3
    elastic = ElasticZO(model, "2", lr=0.1, eps=1e-3, clip=0.3, noise=EngineNoise())
    losses = [elastic.step(lambda: cross_entropy(model(inputs), labels)) for _ in range(50)]
    assert losses[-1] < 0.9 * losses[0]
    assert elastic.log.noise == "engine"


def test_other_parameters_are_refused_before_a_weight_is_touched() -> None:
    parameter = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(UsageError, match="must be float32, bfloat16, float16 on cpu"):
        MeZO([parameter], lr=1e-3, eps=1e-3, noise=EngineNoise())


def test_without_the_engine_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "repro.ondevice._engine")
    with pytest.raises(EngineError, match="not built: run `repro engine build`"):
        EngineNoise()
