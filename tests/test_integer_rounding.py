"""NITI's roundings against their definition in whole numbers and fractions."""

from fractions import Fraction
from math import floor
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from repro.core.errors import UsageError
from repro.integer.matmul import INT32_LIMIT
from repro.integer.network import IntegerNetwork
from repro.integer.rounding import (
    largest_magnitude,
    magnitude_range,
    nearest,
    pseudo_stochastic,
    stochastic,
)
from repro.integer.shift import POLICIES, ShiftPolicy, descend_, gradient

GOLDEN = [  # a, k, P, N: truncating division (worked out from NITI's published rules)
    (5, 2, 1, 1), (-5, 2, -1, -1), (6, 2, 2, 2), (-6, 2, -2, -2), (7, 2, 1, 2), (-7, 2, -1, -2),
    (13, 3, 1, 2), (-13, 3, -1, -2), (20, 3, 3, 3), (100, 4, 7, 6), (-100, 4, -7, -6),
    (109, 4, 7, 7), (1000, 4, 63, 63), (-1000, 5, -32, -31), (2047, 4, 127, 127),
    (12345, 7, 97, 96), (-12345, 7, -97, -96), (1, 1, 1, 1),
]  # fmt: skip

accumulators = st.integers(-INT32_LIMIT, INT32_LIMIT)
shifts = st.integers(1, 31)
dtypes = st.sampled_from([torch.int32, torch.int64])


def one(
    rounding: Any, a: int, k: int, dtype: torch.dtype = torch.int32, *more: torch.Tensor
) -> int:
    result = rounding(torch.tensor([a], dtype=dtype), k, *more)
    assert result.dtype == torch.int8
    return int(result)


def clip(value: int) -> int:
    return max(-127, min(127, value))


def sign(a: int) -> int:
    return (a > 0) - (a < 0)


def pseudo_by_definition(a: int, k: int) -> int:
    q, f = divmod(abs(a), 2**k)
    hi, lo = divmod(f, 2 ** (k // 2))
    return clip(sign(a) * (q + (hi > (2 * lo if k % 2 else lo))))


@pytest.mark.parametrize(("a", "k", "p", "n"), GOLDEN)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_golden_vectors(a: int, k: int, p: int, n: int, dtype: torch.dtype) -> None:
    assert one(pseudo_stochastic, a, k, dtype) == p
    assert one(nearest, a, k, dtype) == n


@given(accumulators, shifts, dtypes)
@example(INT32_LIMIT, 1, torch.int32)
@example(-INT32_LIMIT, 31, torch.int32)
def test_every_rounding_follows_its_definition(a: int, k: int, dtype: torch.dtype) -> None:
    exact = Fraction(abs(a), 2**k)
    assert one(nearest, a, k, dtype) == clip(sign(a) * floor(exact + Fraction(1, 2)))
    assert one(pseudo_stochastic, a, k, dtype) == pseudo_by_definition(a, k)


@given(accumulators, shifts, st.data(), dtypes)
def test_stochastic_rounds_up_exactly_for_draws_below_the_fraction(
    a: int, k: int, data: st.DataObject, dtype: torch.dtype
) -> None:
    u = data.draw(st.integers(0, 2**k - 1))
    q, f = divmod(abs(a), 2**k)
    draws = torch.tensor([u], dtype=dtype)
    assert one(stochastic, a, k, dtype, draws) == clip(sign(a) * (q + (f > u)))


@given(accumulators, shifts)
def test_roundings_are_within_one_unit_odd_and_clipped(a: int, k: int) -> None:
    for rounding in (nearest, pseudo_stochastic):
        rounded = one(rounding, a, k)
        assert rounded == -one(rounding, -a, k)
        assert abs(rounded) <= 127
        if abs(a) <= 127 * 2**k:
            assert abs(rounded - Fraction(a, 2**k)) < 1 or k == 1
            assert abs(rounded - Fraction(a, 2**k)) <= 1


@given(st.integers(1, 12), st.integers(-100, 100))
def test_stochastic_is_unbiased_over_all_draws(k: int, a: int) -> None:
    u = torch.arange(2**k, dtype=torch.int32)
    rounded = stochastic(torch.full_like(u, a), k, u)
    assert Fraction(int(rounded.sum()), 2**k) == Fraction(a, 2**k)


@pytest.mark.parametrize(
    ("k", "bias"),
    [(1, 0.25), (2, -0.125), (3, 0.0625), (4, -0.094), (5, 0.016), (6, -0.055), (7, 0.004),
     (8, -0.029), (10, -0.015)],
)  # fmt: skip
def test_bias_of_the_pseudo_stochastic_shift_is_the_listed_one(k: int, bias: float) -> None:
    fractions = torch.arange(2**k, dtype=torch.int32)
    rounded = pseudo_stochastic(fractions, k).double().mean()
    assert rounded - fractions.double().mean() / 2**k == pytest.approx(bias, abs=6e-4)


@given(st.lists(accumulators, min_size=2, max_size=2), shifts)
def test_nearest_never_decreases_and_keeps_zero(pair: list[int], k: int) -> None:
    low, high = sorted(pair)
    assert one(nearest, low, k) <= one(nearest, high, k)
    assert one(nearest, 0, k) == 0


def test_pseudo_stochastic_does_decrease() -> None:
    assert one(pseudo_stochastic, 6, 2) > one(pseudo_stochastic, 7, 2)
    assert POLICIES["v2"].order_preserving
    assert not POLICIES["v1"].order_preserving


@given(st.integers(0, 2**31))
def test_range_is_the_ceiling_of_the_logarithm(m: int) -> None:
    r = magnitude_range(m)
    assert m <= 2**r
    assert m > 2 ** (r - 1) or r == 0


def test_range_at_powers_of_two() -> None:
    assert [magnitude_range(m) for m in (0, 1, 2, 3, 127, 128, 129)] == [0, 0, 1, 2, 7, 7, 8]


def test_largest_magnitude_takes_both_ends() -> None:
    assert largest_magnitude(torch.tensor([3, -7, 5])) == 7
    assert largest_magnitude(torch.tensor([[-128], [2]], dtype=torch.int8)) == 128
    assert largest_magnitude(torch.tensor([], dtype=torch.int32)) == 0


@pytest.mark.parametrize(
    ("largest", "v1", "v2"),
    [(0, -7, -7), (127, 0, 0), (128, 0, 0), (129, 2, 1), (257, 2, 2), (513, 3, 3)],
)  # fmt: skip
def test_shift_of_the_two_policies(largest: int, v1: int, v2: int) -> None:
    assert POLICIES["v1"].shift_of(largest) == v1
    assert POLICIES["v2"].shift_of(largest) == v2


@pytest.mark.parametrize("policy", POLICIES.values())
def test_a_cast_wraps_128_as_published(policy: ShiftPolicy) -> None:
    accumulator = torch.tensor([128, -128, 127, 0], dtype=torch.int32)
    assert policy.error(accumulator).tolist() == [-128, -128, 127, 0]


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20), st.integers(0, 6))
def test_gradient_has_at_most_its_bits(values: list[int], bits: int) -> None:
    accumulator = torch.tensor(values, dtype=torch.int32)
    rounded = gradient(accumulator, bits)
    assert largest_magnitude(rounded) <= 2**bits
    k = magnitude_range(max(map(abs, values))) - bits
    if max(map(abs, values)) <= 1:
        assert not rounded.any()
    elif k < 1:
        assert rounded.tolist() == values
    else:
        assert rounded.tolist() == [pseudo_by_definition(a, k) for a in values]


def test_update_is_clipped_and_wraps_nowhere() -> None:
    weights = torch.tensor([127, -127, 5, -120], dtype=torch.int8)
    descend_(weights, torch.tensor([-32, 32, 3, 127], dtype=torch.int8))
    assert weights.tolist() == [127, -127, 2, -127]


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="shift policy = 'v3': must be one of v1, v2"):
        IntegerNetwork.random(torch.nn.Sequential(), seed=0, policy="v3")  # type: ignore[arg-type]
