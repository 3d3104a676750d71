"""The fused kernels, by Triton's interpreter on the host, against NumPy's arithmetic."""

import copy
import hashlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.log import replay
from repro.methods.mezo import MeZO
from repro.methods.noise import LatticeStep
from repro.methods.perturbed_weights import PerturbedWeights
from repro.methods.philox import PhiloxNoise, PhiloxSigns

pytest.importorskip("triton")
SHAPES = ((4100,), (3, 7))
SMALL = ((300,), (3, 7))
ALIGNED = ((20_000,), (4, 8))
"""Shapes of which the kernels load whole rows at once."""
DIGEST = "ef9706f58347bb7c68d38b11c431d7f42d47f6b2773a1cac9c96af20a3fa5f9f"


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the kernels run; Triton decides when it compiles them, so they are imported anew."""
    from repro.methods import philox_kernels

    if request.param == "interpreter":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    importlib.reload(philox_kernels)
    yield "cuda" if request.param == "cuda" else "cpu"
    monkeypatch.undo()
    importlib.reload(philox_kernels)


def philox4x32(counter: tuple[Any, ...], seed: int) -> list[Any]:
    """Philox4x32-10 of Salmon et al. (2011), section 3.3, in 64-bit integers."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(word, np.uint64) for word in counter]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def words(seed: int, counters: Any, tensor: int, stream: int) -> Any:
    """The four words of each counter, [n, 4]."""
    zeros = np.zeros_like(counters)
    return np.stack(philox4x32((counters, zeros + tensor, zeros + stream, 0), seed), axis=1)


def gaussian_noise(seed: int, tensor: int, size: int) -> Any:
    """The Gaussian noise of one tensor in float64."""
    word = words(seed, np.arange(-(-size // 8)), tensor, 0).astype(np.int64)
    radius = np.sqrt(-2 * np.log(((word >> 12) + 0.5) / 2**20))
    angle = np.pi / 2 * ((word >> 2 & 1023) + 0.5) / 1024
    pair = [(-1) ** (word & 1) * np.cos(angle), (-1) ** (word >> 1 & 1) * np.sin(angle)]
    return np.stack([radius * part for part in pair], axis=-1).reshape(-1)[:size]


def signs(seed: int, tensor: int, size: int) -> Any:
    """The random signs of one tensor."""
    blocks = -(-size // 16384)
    word = words(seed, np.arange(128 * blocks), tensor, 0).astype(np.int64)
    bits = word[..., None] >> np.arange(32) & 1  # [counter, word, bit]
    tiles = bits.reshape(blocks, 128, 16, 8).swapaxes(1, 2)  # [block, tile, counter, column]
    return ((1 - 2 * tiles) * (1 - 2.0**-24)).reshape(-1)[:size]


EXPECTED = {PhiloxNoise: gaussian_noise, PhiloxSigns: signs}
each_noise = pytest.mark.parametrize("make", EXPECTED)


def weights(
    device: str, dtype: torch.dtype, shapes: Sequence[tuple[int, ...]] = SHAPES
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.nn.Parameter((torch.randn(shape, generator=generator) * 0.1).to(device, dtype))
        for shape in shapes
    ]


def test_philox_gives_the_published_vector() -> None:
    """The known answer for a counter and a key of zeros, as Random123 ships it."""
    found = philox4x32((0, 0, 0, 0), 0)
    assert [int(word) for word in found] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def noise_by_kernels(device: str, make: type[PhiloxNoise], seed: int, size: int) -> torch.Tensor:
    zeros = torch.zeros(size, device=device)
    noise = make()
    noise.prepare([zeros], exact=False)
    noise.add_([zeros], seed, 1.0)
    return zeros.cpu()


@each_noise
@pytest.mark.parametrize("seed", [1, 3_000_000_019])
@pytest.mark.parametrize("shapes", [SHAPES, ALIGNED])
def test_kernels_draw_the_noise_that_is_documented(
    device: str, make: type[PhiloxNoise], seed: int, shapes: Any
) -> None:
    parameters = [torch.zeros(shape, device=device) for shape in shapes]
    noise = make()
    noise.prepare(parameters, exact=False)
    noise.add_(parameters, seed, 2.0)
    for number, parameter in enumerate(parameters):
        found = parameter.cpu().double().view(-1).numpy() / 2
        wanted = EXPECTED[make](seed, number, parameter.numel())
        np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=6e-7)


def test_gaussian_numbers_have_the_same_bits_everywhere(device: str) -> None:
    """The kernels use only operations that IEEE 754 defines, so a log replays on another GPU."""
    found = noise_by_kernels(device, PhiloxNoise, 7, 10_000).numpy().tobytes()
    assert hashlib.sha256(found).hexdigest() == DIGEST


def test_noise_is_standard_normal() -> None:
    n = 1 << 20
    z, other = (gaussian_noise(seed, 0, n) for seed in (12345, 12346))
    assert abs(z.mean()) < 4 / n**0.5
    assert abs(z.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs(stats.skew(z)) < 4 * (6 / n) ** 0.5
    assert abs(stats.kurtosis(z)) < 4 * (24 / n) ** 0.5
    assert stats.kstest(z, "norm").pvalue > 1e-3
    for product in (z * other, *(z[:-lag] * z[lag:] for lag in (1, 2, 8, 1024))):
        assert abs(product.mean()) < 4 / n**0.5


def test_signs_are_fair_and_independent() -> None:
    n = 1 << 20
    z, other = (np.sign(signs(seed, 0, n)) for seed in (12345, 12346))
    for product in (z, z * other, *(z[:-lag] * z[lag:] for lag in (1, 2, 8, 1024, 16384))):
        assert abs(product.mean()) < 4 / n**0.5


def half_of(device: str) -> torch.dtype:
    """The interpreter truncates to bfloat16, where a GPU rounds to the nearest."""
    return torch.bfloat16 if device == "cuda" else torch.float16


@each_noise
def test_exact_passes_restore_every_bit(device: str, make: type[PhiloxNoise]) -> None:
    parameters = weights(device, half_of(device))
    perturbed = PerturbedWeights(parameters, "exact", 1e-3, None, make())
    perturbed.prepare()
    before = [parameter.clone() for parameter in parameters]
    for seed in range(2):
        perturbed.perturb(seed, 1)
        assert not torch.equal(parameters[0], before[0])
        perturbed.perturb(seed, -1)
        perturbed.restore()
    assert all(torch.equal(p, b) for p, b in zip(parameters, before, strict=True))


@each_noise
def test_exact_update_is_the_lattices(device: str, make: type[PhiloxNoise]) -> None:
    """Each updated weight is one of the two lattice points around theta - rate z."""
    eps, rate, seed = 1e-3, 4e-4, 5
    parameters = weights(device, half_of(device))
    perturbed = PerturbedWeights(parameters, "exact", eps, None, make())
    perturbed.prepare()
    theta = [parameter.detach().cpu().float() for parameter in parameters]
    perturbed.perturb(seed, -1)
    perturbed.update([(seed, rate)])
    lattice = Lattice(half_of(device), eps)
    drift, spread = [], []
    for number, (old, new) in enumerate(zip(theta, parameters, strict=True)):
        z = torch.from_numpy(EXPECTED[make](seed, number, old.numel())).float().view(old.shape)
        ideal = old - rate / eps * lattice.noise(z)
        moved = new.detach().cpu().float() - ideal
        spacing = lattice.spacing(torch.maximum(ideal.abs(), new.detach().cpu().float().abs()))
        assert float((moved.abs() / spacing).max()) <= 1.01
        drift.append(moved.double().sum())
        spread.append(moved.double().square().sum())
    # rounded at random, the errors average out: their sum is within five standard deviations of 0
    assert abs(float(sum(drift))) < 5 * float(sum(spread)) ** 0.5


def awkward_weights(size: int) -> torch.Tensor:
    """float32 [size]: zeros of both signs, denormals of float16, and numbers near powers of two."""
    generator = torch.Generator().manual_seed(0)
    exponents = torch.randint(-14, 4, (size,), generator=generator)
    found = torch.ldexp(1 + torch.randn(size, generator=generator) * 2.0**-9, exponents)
    found[::2] *= -1
    found[::7] = torch.randn(len(found[::7]), generator=generator) * 0.02
    found[::11] = torch.randn(len(found[::11]), generator=generator) * 1e-6
    found[:4] = torch.tensor([0.0, -0.0, 2.0**-24, 1 - 2.0**-11])
    return found


def rounding_thresholds(seed: int, size: int) -> torch.Tensor:
    """The numbers that round the updates of tensor 0, float32 [size]."""
    word = words(seed, np.arange(-(-size // 8)), 0, 1).astype(np.int64)
    halves = np.stack([word & 0xFFFF, word >> 16], axis=-1).reshape(-1)[:size]
    return torch.from_numpy((halves + 0.5) / 65536).float()


@each_noise
def test_exact_steps_are_those_of_the_lattice(device: str, make: type[PhiloxNoise]) -> None:
    """Every bit of a perturbation and of an update, at the noise that the kernels draw."""
    eps, seed, size = 2.0**-10, 63, 17_000  # more than a block
    lattice = Lattice(half_of(device), eps)
    start = lattice.round(awkward_weights(size).to(lattice.dtype).float()).to(lattice.dtype)
    z = noise_by_kernels(device, make, seed, size)
    if make is PhiloxNoise:  # M is 4 eps here, beyond which noise is clipped
        assert float(z.max()) > 4
        assert float(z.min()) < -4
    else:
        assert set(z.abs().tolist()) == {1 - 2.0**-24}
    eps_z = lattice.noise(z)
    moved = start.clone().to(device)
    noise = make()
    noise.prepare([moved], exact=True)
    noise.step_on_lattice_([moved], seed, LatticeStep(eps, 0, 1, is_update=False), None)
    plus = (start.float() + eps_z).to(lattice.dtype)
    assert torch.equal(moved.cpu().view(torch.int16), plus.view(torch.int16))
    rate = 0.37
    noise.step_on_lattice_([moved], seed, LatticeStep(eps, 1, -rate, is_update=True), None)
    # exact in float64 but for the last rounding, as in the kernel
    ideal = (start.double() - np.float32(rate).astype(float) * eps_z.double()).float()
    updated = lattice.round_up_above(ideal, rounding_thresholds(seed, size)).to(lattice.dtype)
    assert torch.equal(moved.cpu(), updated)
    noise.shrink_on_lattice_([moved], seed, 0.9, eps, None)
    shrunk = lattice.round_up_above(updated.float() * 0.9, rounding_thresholds(seed, size))
    assert torch.equal(moved.cpu(), shrunk.to(lattice.dtype))


def test_tensors_of_two_formats_and_new_addresses_keep_their_noise(device: str) -> None:
    sizes = (9, 16, 5, 32)
    formats = (torch.float32, torch.float16, torch.float16, torch.float32)
    noise = PhiloxNoise()

    def require_noise(tensors: list[torch.Tensor]) -> None:
        noise.add_(tensors, 3, 1.0)
        for number, tensor in enumerate(tensors):
            wanted = gaussian_noise(3, number, tensor.numel())
            np.testing.assert_allclose(tensor.cpu().double().numpy(), wanted, atol=2e-3)

    def zeros() -> list[torch.Tensor]:
        return [torch.zeros(n, dtype=d, device=device) for n, d in zip(sizes, formats, strict=True)]

    first = zeros()
    noise.prepare(first, exact=False)
    require_noise(first)
    for tensor in first:  # not at a multiple of 16 bytes
        memory = torch.zeros(len(tensor) + 1, dtype=tensor.dtype, device=device)
        tensor.data = memory[1:]
    require_noise(first)
    require_noise(zeros()[1:])  # another optimizer's


@each_noise
@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_a_log_replays_bit_by_bit(device: str, restore: Any, make: type[PhiloxNoise]) -> None:
    dtype = torch.float32 if restore == "rounded" else half_of(device)
    trained, again = (weights(device, dtype, SMALL) for _ in range(2))
    settings: Any = {"perturbations": 2, "weight_decay": 0.1, "restore": restore}
    mezo = MeZO(trained, lr=1e-3, eps=1e-3, noise=make(), **settings)
    for _ in range(2):
        mezo.step(lambda: sum((p.float() ** 2).sum() for p in trained))
    replay(mezo.log, again)  # with the noise that the log names
    assert mezo.log.noise == make.name
    assert all(torch.equal(a, b) for a, b in zip(trained, again, strict=True))


def test_a_parameter_on_the_host_is_refused() -> None:
    with pytest.raises(UsageError, match="its kernels run on a GPU"):
        MeZO([torch.nn.Parameter(torch.ones(3))], lr=1, eps=1e-3, noise=PhiloxNoise())


def test_a_tensor_without_an_address_of_its_own_is_refused(device: str) -> None:
    class Sharded(torch.Tensor):
        """Stands for the tensors of FSDP and of quantizers."""

    parameter = torch.ones(3, device=device).as_subclass(Sharded).requires_grad_()
    with pytest.raises(UsageError, match="parameter of Sharded: its kernels need the address"):
        MeZO([parameter], lr=1, eps=1e-3, noise=PhiloxNoise())


def test_a_copied_optimizer_trains_its_own_weights(device: str) -> None:
    model = torch.nn.Linear(5, 3).to(device)
    mezo = MeZO(model.parameters(), lr=0.1, eps=1e-3, noise=PhiloxNoise())
    other, its = copy.deepcopy((model, mezo))
    for trained, optimizer in ((model, mezo), (other, its)):
        optimizer.step(lambda trained=trained: sum(p.sum() for p in trained.parameters()))
        assert torch.equal(trained.weight, other.weight) == (trained is other)


def test_a_format_that_the_kernels_would_round_is_refused(device: str) -> None:
    parameters = weights(device, torch.float64)
    with pytest.raises(UsageError, match=r"torch\.float64: its kernels compute in float32"):
        MeZO(parameters, lr=1, eps=1e-3, noise=PhiloxNoise())
