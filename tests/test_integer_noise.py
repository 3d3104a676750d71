"""Counter-based words and the sparse noise made of them."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.core.errors import UsageError
from repro.integer import noise as module
from repro.integer.counter import signed, splitmix64, stream_key, words_
from repro.integer.noise import IntegerNoise

CPU = torch.device("cpu")
keys = st.integers(0, 2**64 - 1)
GOLDEN_KEY = 0x238275BC38FCBE91
GOLDEN_WORDS = [0x5D3E8297, 0xD8B631AC, 0xC1E49AC8, 0x6BCDA183]
GOLDEN_NOISE = [11, -5, -8, 13, 6, 0, 8, 0, 12, 0, -13, 8]


def words_by_numpy(key: int, counters: np.ndarray) -> np.ndarray:
    """The specification in NumPy's unsigned arithmetic."""
    x = counters.astype(np.uint32) + np.uint32(key & 0xFFFFFFFF)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15)) ^ np.uint32(key >> 32)) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def noise_by_numpy(key: int, n: int, r_max: int, p_zero: float) -> np.ndarray:
    w = words_by_numpy(key, np.arange(n)).astype(np.int64)
    keep = (w & 0xFFFF) < round((1 - p_zero) * 65536)
    high = (w >> 16) - 65536 * (w >= 2**31)
    u = (high * (2 * r_max + 1) + 2**15) // 65536
    return u * keep


def noise(key: int, n: int, r_max: int = 15, p_zero: float = 0.33) -> torch.Tensor:
    chunks = IntegerNoise(key, r_max, p_zero).chunks(n, CPU)
    return torch.cat([z.clone() for _, z in chunks])


def words(key: int, n: int) -> torch.Tensor:
    counters = torch.arange(n, dtype=torch.int32)
    return words_(counters, key, torch.empty_like(counters))


@given(keys)
def test_words_are_those_of_unsigned_arithmetic(key: int) -> None:
    expected = words_by_numpy(key, np.arange(300)).view(np.int32)
    assert np.array_equal(words(key, 300).numpy(), expected)


@given(keys, st.integers(2, 127), st.floats(0, 0.99))
def test_noise_is_as_specified(key: int, r_max: int, p_zero: float) -> None:
    assert np.array_equal(
        noise(key, 500, r_max, p_zero).numpy(), noise_by_numpy(key, 500, r_max, p_zero)
    )


def test_golden_words_and_noise() -> None:
    """Fixed values, for other implementations to meet."""
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the published first output for the state 0
    assert stream_key(0, 0, 0) == GOLDEN_KEY
    assert [word & 0xFFFFFFFF for word in words(GOLDEN_KEY, 4).tolist()] == GOLDEN_WORDS
    assert noise(GOLDEN_KEY, 12).tolist() == GOLDEN_NOISE


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_chunks_do_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = noise(5, 1000)
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert torch.equal(noise(5, 1000), whole)


def test_threads_do_not_matter() -> None:
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(noise(9, 200_000))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("r_max", [2, 15, 63, 127])
def test_bias_of_the_multiply_shift_is_within_the_stated_bound(
    r_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all words with another upper half, each once."""
    high = torch.arange(-(2**15), 2**15, dtype=torch.int32)
    monkeypatch.setattr(module, "mix_", lambda x, *_: x.copy_(high << 16))
    u = noise(0, 2**16, r_max, p_zero=0.0)
    values, counts = u.unique(return_counts=True)
    assert values.tolist() == list(range(-r_max, r_max + 1))
    assert (counts / 2**16 - 1 / (2 * r_max + 1)).abs().max() <= 2**-16
    assert abs(float(u.double().mean())) < 2**-9


def chi_squared(counts: np.ndarray) -> float:
    """Standard deviations from what a uniform distribution gives on average."""
    expected = counts.sum() / len(counts)
    degrees = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - degrees) / sqrt(2 * degrees)


@pytest.mark.parametrize("step", [0, 1, 12_345])
def test_words_look_uniform_in_every_byte_and_between_neighbours_and_steps(step: int) -> None:
    n = 1 << 20
    w = words_by_numpy(stream_key(3, step, 0), np.arange(n))
    after = words_by_numpy(stream_key(3, step + 1, 0), np.arange(n))
    for shift in (0, 8, 16, 24):
        byte = (w >> np.uint32(shift)) & np.uint32(0xFF)
        assert abs(chi_squared(np.bincount(byte, minlength=256))) < 5
    high = w >> np.uint32(28)
    for other in (
        np.roll(high, 1),
        np.roll(high, 64),
        after >> np.uint32(28),
        (w >> np.uint32(12)) & np.uint32(15),
    ):
        assert abs(chi_squared(np.bincount(16 * high + other, minlength=256))) < 5


def test_mask_and_values_have_their_moments() -> None:
    n = 1 << 20
    z = noise(stream_key(1, 2, 0), n, r_max=15, p_zero=0.9).double()
    kept = 0.1
    variance = kept * 15 * 16 / 3
    assert float((z == 0).double().mean()) == pytest.approx(
        1 - kept * 30 / 31, abs=4 * sqrt(0.09 / n)
    )
    assert abs(float(z.mean())) < 4 * sqrt(variance / n)
    assert float(z.var()) == pytest.approx(variance, rel=0.02)


@given(st.integers(-(2**63), 2**64))
def test_signed_words_are_twos_complement(word: int) -> None:
    assert signed(word) == int(np.array(word & 0xFFFFFFFF, np.uint32).view(np.int32))


def test_streams_have_their_own_keys() -> None:
    streams = {
        stream_key(seed, step, purpose)
        for seed in range(5)
        for step in range(50)
        for purpose in (0, 1)
    }
    assert len(streams) == 500
    assert stream_key(-1, 0, 0) == stream_key(2**64 - 1, 0, 0)


@pytest.mark.parametrize(
    ("r_max", "p_zero", "message"),
    [
        (1, 0.3, "r_max = 1: must be a whole number from 2 to 127"),
        (128, 0.3, "r_max = 128"),
        (2.0, 0.3, r"r_max = 2\.0"),
        (15, 1.0, r"p_zero = 1\.0: must be from 0 to 1 - 2\^-16"),
        (15, -0.1, r"p_zero = -0\.1"),
        (15, float("nan"), "p_zero = nan"),
    ],
)
def test_wrong_settings_are_refused(r_max: int, p_zero: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        IntegerNoise(0, r_max, p_zero)


def test_more_weights_than_counters_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 2\\^32"):
        next(IntegerNoise(0, 15, 0.3).chunks(2**32 + 1, CPU))
