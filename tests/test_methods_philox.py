"""The fused kernels, by Triton's interpreter on the host, against NumPy's arithmetic."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.log import replay
from repro.methods.mezo import MeZO
from repro.methods.perturbed_weights import PerturbedWeights
from repro.methods.philox import PhiloxNoise

pytest.importorskip("triton")
SHAPES = ((4100,), (3, 7))


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the kernels run; Triton decides when it compiles them, so they are imported anew."""
    from repro.methods import philox_kernels

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
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


def expected_noise(seed: int, tensor: int, size: int) -> Any:
    """The noise of one tensor in float64."""
    groups = -(-size // 4096)
    counters = np.arange(groups * 1024)
    a, b, c, d = philox4x32((counters, np.full_like(counters, tensor), 0 * counters, 0), seed)
    scale = 2.0**-32
    r0, r1 = (np.sqrt(-2 * np.log(x * scale + scale / 2)) for x in (a, c))
    t0, t1 = (2 * np.pi * x * scale for x in (b, d))
    quarters = [r0 * np.cos(t0), r0 * np.sin(t0), r1 * np.cos(t1), r1 * np.sin(t1)]
    by_group = np.stack([quarter.reshape(groups, 1024) for quarter in quarters], axis=1)
    return by_group.reshape(-1)[:size]


def weights(device: str, dtype: torch.dtype, scale: float = 0.1) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.nn.Parameter((torch.randn(shape, generator=generator) * scale).to(device, dtype))
        for shape in SHAPES
    ]


def test_philox_gives_the_published_vector() -> None:
    """The known answer for a counter and a key of zeros, as Random123 ships it."""
    found = philox4x32((0, 0, 0, 0), 0)
    assert [int(word) for word in found] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [1, 3_000_000_019])
def test_kernels_draw_the_noise_that_is_documented(device: str, seed: int) -> None:
    parameters = weights(device, torch.float32, scale=0)
    perturbed = PerturbedWeights(parameters, "rounded", 1e-3, None, PhiloxNoise())
    perturbed.prepare()
    perturbed.perturb(seed, 1)
    for number, parameter in enumerate(parameters):
        found = parameter.detach().cpu().double().view(-1).numpy() / 1e-3
        wanted = expected_noise(seed, number, parameter.numel())
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=5e-5)


def half_of(device: str) -> torch.dtype:
    """The interpreter truncates to bfloat16, where a GPU rounds to the nearest."""
    return torch.bfloat16 if device == "cuda" else torch.float16


def test_exact_passes_restore_every_bit(device: str) -> None:
    parameters = weights(device, half_of(device))
    perturbed = PerturbedWeights(parameters, "exact", 1e-3, None, PhiloxNoise())
    perturbed.prepare()
    before = [parameter.clone() for parameter in parameters]
    for seed in range(2):
        perturbed.perturb(seed, 1)
        assert not torch.equal(parameters[0], before[0])
        perturbed.perturb(seed, -1)
        perturbed.restore()
    assert all(torch.equal(p, b) for p, b in zip(parameters, before, strict=True))


def test_exact_update_is_the_lattices(device: str) -> None:
    """Each updated weight is one of the two lattice points around theta - rate z."""
    eps, rate, seed = 1e-3, 4e-4, 5
    parameters = weights(device, half_of(device))
    perturbed = PerturbedWeights(parameters, "exact", eps, None, PhiloxNoise())
    perturbed.prepare()
    theta = [parameter.detach().cpu().float() for parameter in parameters]
    perturbed.perturb(seed, -1)
    perturbed.update([(seed, rate)])
    lattice = Lattice(half_of(device), eps)
    drift, spread = [], []
    for number, (old, new) in enumerate(zip(theta, parameters, strict=True)):
        z = torch.from_numpy(expected_noise(seed, number, old.numel())).float().view(old.shape)
        ideal = old - rate / eps * lattice.noise(z)
        moved = new.detach().cpu().float() - ideal
        spacing = lattice.spacing(torch.maximum(ideal.abs(), new.detach().cpu().float().abs()))
        assert float((moved.abs() / spacing).max()) <= 1.01
        drift.append(moved.double().sum())
        spread.append(moved.double().square().sum())
    # rounded at random, the errors average out: their sum is within five standard deviations of 0
    assert abs(float(sum(drift))) < 5 * float(sum(spread)) ** 0.5


@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_a_log_replays_bit_by_bit(device: str, restore: Any) -> None:
    dtype = torch.float32 if restore == "rounded" else half_of(device)
    trained, again = weights(device, dtype), weights(device, dtype)
    mezo = MeZO(trained, lr=1e-3, eps=1e-3, perturbations=2, restore=restore, noise=PhiloxNoise())
    for _ in range(2):
        mezo.step(lambda: sum((p.float() ** 2).sum() for p in trained))
    replay(mezo.log, again, PhiloxNoise())
    assert mezo.log.noise == "philox"
    assert all(torch.equal(a, b) for a, b in zip(trained, again, strict=True))


def test_a_parameter_on_the_host_is_refused() -> None:
    with pytest.raises(UsageError, match="its kernels run on a GPU"):
        MeZO([torch.nn.Parameter(torch.ones(3))], lr=1, eps=1e-3, noise=PhiloxNoise())


def test_a_format_that_the_kernels_would_round_is_refused(device: str) -> None:
    parameters = weights(device, torch.float64)
    with pytest.raises(UsageError, match=r"torch\.float64: its kernels compute in float32"):
        MeZO(parameters, lr=1, eps=1e-3, noise=PhiloxNoise())
