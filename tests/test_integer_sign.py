"""The integer sign against exact rational arithmetic, and against the floating-point loss."""

from fractions import Fraction
from math import log, log2, trunc
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from repro.integer.sign import PowerLoss, compare, mean_loss
from repro.integer.tensor import IntegerTensor

CLASSES = 4
Sample = tuple[list[int], list[int], int]
"""Mantissas of the plus and of the minus pass, and the label."""
Batch = list[Sample]
rows = st.lists(st.integers(-127, 127), min_size=CLASSES, max_size=CLASSES)
batches = st.lists(st.tuples(rows, rows, st.integers(0, CLASSES - 1)), min_size=1, max_size=5)
exponents = st.integers(-9, 2)


def powers(m: list[int], s: int, common: int) -> list[int]:
    """Equations 7 to 9 in fractions, divisions truncating."""
    rescaled = [v * 2 ** (s - common) for v in m]
    t = [trunc(trunc(Fraction(47274 * v, 2**15)) * Fraction(2) ** common) for v in rescaled]
    return [max(v - (max(t) - 10), 0) for v in t]


def ratio(batch: Batch, plus: int, minus: int) -> Fraction:
    """prod_i [sum_j 2^p+ / 2^p+_y] / [the same of the minus pass]: above 1 if l+ > l-."""
    common = min(plus, minus)
    result = Fraction(1)
    for m_plus, m_minus, y in batch:
        for m, s, power in ((m_plus, plus, 1), (m_minus, minus, -1)):
            p = powers(m, s, common)
            result *= Fraction(sum(2**v for v in p), 2 ** p[y]) ** power
    return result


def floored(batch: Batch, plus: int, minus: int) -> int:
    """Equation 12."""
    common = min(plus, minus)
    total = 0
    for m_plus, m_minus, y in batch:
        for m, s, direction in ((m_plus, plus, 1), (m_minus, minus, -1)):
            p = powers(m, s, common)
            total += direction * ((sum(2**v for v in p).bit_length() - 1) - p[y])
    return total


def tensors(
    batch: Batch, plus: int, minus: int
) -> tuple[IntegerTensor, IntegerTensor, torch.Tensor]:
    m_plus, m_minus, labels = (list(column) for column in zip(*batch, strict=True))
    return (
        IntegerTensor(torch.tensor(m_plus, dtype=torch.int8), plus),
        IntegerTensor(torch.tensor(m_minus, dtype=torch.int8), minus),
        torch.tensor(labels),
    )


def order(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


@given(batches, exponents, exponents)
def test_exact_sign_is_that_of_rational_arithmetic(batch: Batch, plus: int, minus: int) -> None:
    assert compare("exact", *tensors(batch, plus, minus)).sign == order(
        ratio(batch, plus, minus), 1
    )


@given(batches, exponents, exponents)
def test_integer_sign_is_that_of_equation_12(batch: Batch, plus: int, minus: int) -> None:
    expected = order(floored(batch, plus, minus), 0)
    assert compare("integer", *tensors(batch, plus, minus)).sign == expected


@st.composite
def shuffled(draw: st.DrawFn) -> Sample:
    """Minus rows are plus rows in another order, so that the sums, and their floors, are equal."""
    row = draw(rows)
    return row, draw(st.permutations(row)), draw(st.integers(0, CLASSES - 1))


@given(st.lists(shuffled(), min_size=1, max_size=5), exponents)
def test_integer_sign_is_exact_where_the_floor_is_not_involved(batch: Batch, s: int) -> None:
    expected = order(ratio(batch, s, s), 1)
    assert compare("integer", *tensors(batch, s, s)).sign == expected
    assert compare("exact", *tensors(batch, s, s)).sign == expected


@given(batches, exponents, exponents)
@settings(max_examples=25)
def test_signs_change_with_the_passes(batch: Batch, plus: int, minus: int) -> None:
    swapped = [(m_minus, m_plus, y) for m_plus, m_minus, y in batch]
    for rule in ("float", "integer", "exact"):
        forth = compare(rule, *tensors(batch, plus, minus))
        back = compare(rule, *tensors(swapped, minus, plus))
        assert forth.sign == -back.sign
        assert (forth.loss_plus, forth.loss_minus) == (back.loss_minus, back.loss_plus)


@given(rows, st.integers(-60, 60), st.integers(-60, 60))
def test_no_exponent_overflows(row: list[int], plus: int, minus: int) -> None:
    zeros = [0] * CLASSES
    pair = tensors([(row, zeros, 0)], plus, minus)
    for rule in ("integer", "exact"):
        assert 0 <= compare(rule, *pair).loss_plus <= (10 + log2(CLASSES)) * log(2) + 1e-9


def test_losses_are_in_nats() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-127, 128, (400, 10), generator=generator).to(torch.int8)
    labels = torch.randint(0, 10, (400,), generator=generator)
    logits = IntegerTensor(values // 2, -5)
    expected = float(cross_entropy((values // 2).double() / 32, labels))
    assert mean_loss("float", logits, labels) == pytest.approx(expected)
    assert mean_loss("exact", logits, labels) == pytest.approx(expected, rel=0.1)
    assert mean_loss("integer", logits, labels) < mean_loss("exact", logits, labels)


def test_sums_and_floors_of_one_sample() -> None:
    logits = IntegerTensor(torch.tensor([[4, 4, 2, -100]], dtype=torch.int8), 0)
    loss = PowerLoss.of(logits, torch.tensor([2]))
    t = [47274 * 4 >> 15] * 2 + [47274 * 2 >> 15]  # 5, 5, 2
    p = [10, 10, 10 - (t[0] - t[2]), 0]
    assert loss.sums.tolist() == [sum(2**v for v in p)]
    assert loss.label_powers.tolist() == [p[2]]
    assert loss.floored() == 11 - p[2]
    assert loss.exact() == (sum(2**v for v in p), p[2])
