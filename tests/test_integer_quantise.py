"""Where floating point ends: inputs, initial weights, and structures of layers."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from repro.core.errors import UsageError
from repro.integer.quantise import exponent_of, initialise, quantise
from repro.integer.structure import without_bias_and_norm
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet


@given(st.floats(1e-30, 1e30))
def test_exponent_is_the_ceiling_of_the_logarithm_less_seven(largest: float) -> None:
    e = exponent_of(largest)
    assert 2.0 ** (e + 6) < largest <= 2.0 ** (e + 7)


def test_exponent_of_mnist_and_of_powers_of_two() -> None:
    assert exponent_of((1 - 0.1307) / 0.3081) == -5  # 2.821, NITI's own example
    assert [exponent_of(2.0**k) for k in (-3, 0, 2)] == [-10, -7, -5]


@example([-1.0])  # the only kind of number that becomes -128
@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20).filter(any))
def test_quantised_numbers_are_within_half_a_unit(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    q = quantise(x)
    unit = 2.0**q.exponent
    expected = [max(-128, min(127, round(v / unit))) for v in x.double().tolist()]
    assert q.values.tolist() == expected
    off = (q.dequantise(torch.float64) - x.double()).abs()
    assert (off <= unit / 2).logical_or(x.double() / unit > 127).all()


def test_one_exponent_serves_the_whole_set() -> None:
    q = quantise(torch.tensor([1.0, 2.0, 100.0]), exponent=-5)
    assert q.exponent == -5
    assert q.values.tolist() == [32, 64, 127]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(UsageError, match="only finite numbers can be quantised"):
        quantise(torch.tensor([1.0, bad]))


def test_zeros_have_no_exponent_of_their_own() -> None:
    with pytest.raises(UsageError, match=r"largest magnitude = 0\.0"):
        quantise(torch.zeros(3))
    assert quantise(torch.zeros(3), exponent=-5).values.tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(6, 1, 5, 5), (120, 784)])
def test_initial_weights_are_xaviers_inflated(shape: tuple[int, ...]) -> None:
    weight = initialise(shape, torch.Generator().manual_seed(4))
    xavier = torch.empty(shape)
    nn.init.xavier_uniform_(xavier, generator=torch.Generator().manual_seed(4))
    r = float(xavier.abs().max())
    assert int(weight.values.abs().max()) == 127
    assert weight.exponent == math.ceil(math.log2(r)) - 7
    c = 127 / 128 * 2 ** math.ceil(math.log2(r)) / r
    assert 0.99 <= c <= 1.985
    torch.testing.assert_close(
        weight.dequantise(), c * xavier, rtol=0, atol=2.0**weight.exponent / 1.99
    )


def test_structure_keeps_names_and_drops_biases_and_norms() -> None:
    network = without_bias_and_norm(pointnet())
    assert "bn1" not in dict(network.named_children())
    assert {name for name, _ in network.named_parameters()} == {
        f"fc{n}.weight" for n in range(1, 9)
    }
    assert list(dict(network.named_children()))[:4] == ["fc1", "relu1", "fc2", "relu2"]
    shapes = [p.shape for p in without_bias_and_norm(lenet5()).parameters()]
    assert shapes == [p.shape for p in lenet5(bias=False).parameters()]


def test_nothing_to_quantise_is_refused() -> None:
    with pytest.raises(UsageError, match="there is nothing to quantise"):
        quantise(torch.zeros(0, 28))
