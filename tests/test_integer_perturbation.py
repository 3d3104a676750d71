"""The excursion of the weights against a literal walk in NumPy, clips and all."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.integer import noise as noise_module
from repro.integer.noise import IntegerNoise
from repro.integer.perturbation import Perturbation

SIZES = [30, 200, 7]
P = sum(SIZES)


def weights(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-127, 128, (P,), generator=generator).to(torch.int8)


def z_of(noise: IntegerNoise) -> np.ndarray:
    return np.concatenate([z.numpy().copy() for _, z in noise.chunks(P, torch.device("cpu"))])


def clip(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -127, 127)


def rounded(product: np.ndarray, bits: int) -> np.ndarray:
    """NITI's gradient rounding of one layer's g z, number by number."""
    m = int(np.abs(product).max())
    r = (m - 1).bit_length() if m > 1 else 0
    k = r - bits
    if r == 0:
        return np.zeros_like(product)
    if k < 1:
        return product
    result = []
    for a in product.tolist():
        q, f = divmod(abs(a), 2**k)
        hi, lo = divmod(f, 2 ** (k // 2))
        result.append((q + (hi > (2 * lo if k % 2 else lo))) * (1 if a > 0 else -1))
    return np.array(result)


def update_of(z: np.ndarray, g: int, bits: int) -> np.ndarray:
    ends = np.cumsum(SIZES)[:-1]
    return np.concatenate([rounded(g * part, bits) for part in np.split(z, ends)])


noises = st.builds(
    IntegerNoise, key=st.integers(0, 2**64 - 1), r_max=st.sampled_from([2, 15, 17, 127]),
    p_zero=st.sampled_from([0.0, 0.33, 0.9, 0.999]),
)  # fmt: skip


@given(noises, st.sampled_from([-1, 0, 1]), st.integers(0, 6), st.sampled_from([10, 64, 1 << 16]))
def test_in_place_excursion_is_algorithm_2_literally(
    noise: IntegerNoise, g: int, bits: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_module, "CHUNK", chunk)
        theta = weights()
        z, start = z_of(noise), theta.numpy().astype(int)
        walk = Perturbation(theta, SIZES, noise, exact=False)
        walk.plus()
        plus = clip(start + z)
        assert np.array_equal(theta.numpy(), plus)
        walk.minus()
        minus = clip(plus - 2 * z)
        assert np.array_equal(theta.numpy(), minus)
        walk.restore_and_descend(g, bits)
    back = clip(minus + z)
    assert walk.clipped == (back != start).sum()
    expected = clip(back - update_of(z, g, bits)) if g else back
    assert np.array_equal(theta.numpy(), expected)


@given(noises, st.sampled_from([-1, 0, 1]), st.integers(0, 6))
def test_exact_excursion_loses_nothing(noise: IntegerNoise, g: int, bits: int) -> None:
    theta = weights()
    z, start = z_of(noise), theta.numpy().astype(int)
    walk = Perturbation(theta, SIZES, noise, exact=True)
    walk.plus()
    assert np.array_equal(theta.numpy(), clip(start + z))
    walk.minus()
    assert np.array_equal(theta.numpy(), clip(start - z))
    assert walk.clipped == ((np.abs(start + z) > 127) | (np.abs(start - z) > 127)).sum()
    walk.restore_and_descend(g, bits)
    expected = clip(start - update_of(z, g, bits)) if g else start
    assert np.array_equal(theta.numpy(), expected)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("reached", ["theta", "plus", "minus"])
def test_restore_works_from_everywhere(reached: str, exact: bool) -> None:
    theta = weights()
    start = theta.clone()
    walk = Perturbation(theta, SIZES, IntegerNoise(1, 15, 0.33), exact=exact)
    if reached != "theta":
        walk.plus()
    if reached == "minus":
        walk.minus()
    walk.restore()
    inner = start.abs() <= 127 - 15
    assert torch.equal(theta[inner], start[inner])
    if exact:
        assert torch.equal(theta, start)
    else:
        assert int((theta != start).sum()) == walk.clipped


def test_ternary_update_moves_by_at_most_two_bits() -> None:
    theta = torch.zeros(P, dtype=torch.int8)
    walk = Perturbation(theta, SIZES, IntegerNoise(3, 15, 0.33), exact=False)
    walk.plus()
    walk.minus()
    walk.restore_and_descend(1, 1)
    assert theta.unique().tolist() == [-2, -1, 0, 1, 2]  # |update| <= 2^b_ZO
