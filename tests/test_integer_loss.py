"""The integer loss gradient against the rule in fractions and against softmax."""

from fractions import Fraction
from math import trunc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, one_hot

from repro.integer.loss import float_cross_entropy, logit_error, logit_gradient
from repro.integer.tensor import IntegerTensor

rows = st.lists(st.integers(-128, 127), min_size=10, max_size=10)
exponents = st.integers(-20, 3)


def by_rule(s: list[int], e: int, target: int) -> list[int]:
    """NITI's ti_loss.py in fractions; every division truncates."""
    if e > -7:
        t = [trunc(trunc(Fraction(v * 47274, 2**15)) * Fraction(2) ** e) for v in s]
        q = [2 ** max(v - (max(t) - 10), 0) - 1 for v in t]
    else:
        q = [
            int(2 * Fraction(4) ** -e * (1 + x + x * x / 2))
            for x in (v * Fraction(2) ** e for v in s)
        ]
    g = [trunc(Fraction(v * 2**11, sum(q))) for v in q]
    g[target] -= sum(g)
    return g


def gradient(s: list[int], e: int, target: int) -> list[int]:
    logits = IntegerTensor(torch.tensor([s], dtype=torch.int8), e)
    return logit_gradient(logits, torch.tensor([target]))[0].tolist()


@given(rows, exponents, st.integers(0, 9))
def test_gradient_follows_the_rule_and_its_rows_sum_to_zero(
    s: list[int], e: int, target: int
) -> None:
    g = gradient(s, e, target)
    assert g == by_rule(s, e, target)
    assert sum(g) == 0


@given(rows, st.integers(-60, 60), st.integers(0, 9))
def test_no_exponent_overflows(s: list[int], e: int, target: int) -> None:
    g = gradient(s, e, target)
    assert sum(g) == 0
    assert all(-2048 <= v <= 2048 for v in g)
    assert g[target] <= 0
    assert all(v >= 0 for n, v in enumerate(g) if n != target)


@pytest.mark.parametrize("e", [-8, -6, -5, -4])
def test_gradient_is_near_that_of_the_cross_entropy(e: int) -> None:
    generator = torch.Generator().manual_seed(e % 97)
    values = torch.randint(-127, 128, (500, 10), generator=generator).to(torch.int8)
    labels = torch.randint(0, 10, (500,), generator=generator)
    logits = IntegerTensor(values, e)
    p = torch.softmax(logits.dequantise(torch.float64), 1)
    exact = 2048 * (p - one_hot(labels, 10))
    off = (logit_gradient(logits, labels) - exact).abs().mean(dtype=torch.float64) / 2048
    assert off < (0.001 if e <= -7 else 0.06)  # powers of two are coarse, the series is not


def test_error_is_rounded_by_the_draws_and_fits_int8() -> None:
    logits = IntegerTensor(torch.tensor([[127, -127, 0], [0, 0, 0]], dtype=torch.int8), -3)
    labels = torch.tensor([1, 2])
    g = logit_gradient(logits, labels)
    down = logit_error(logits, labels, torch.full_like(g, 15))
    up = logit_error(logits, labels, torch.zeros_like(g))
    assert down.dtype == torch.int8
    assert torch.equal(down, (g.sign() * (g.abs() // 16)).clamp(-127, 127).to(torch.int8))
    assert torch.equal(up, (g.sign() * ((g.abs() + 15) // 16)).clamp(-127, 127).to(torch.int8))
    assert int(down.min()) == -127


def test_float_cross_entropy_is_pytorchs() -> None:
    values = torch.randint(-127, 128, (20, 10)).to(torch.int8)
    labels = torch.randint(0, 10, (20,))
    expected = cross_entropy(values.double() / 16, labels, reduction="none")
    assert torch.equal(float_cross_entropy(IntegerTensor(values, -4), labels), expected)
