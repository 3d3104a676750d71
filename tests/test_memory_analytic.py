"""The MeZO paper's formulas, against exact integer arithmetic written separately."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.core.errors import UsageError
from repro.memory.analytic import AS_PRINTED, effective_layers, parameter_count, sizes

PAPER = {"context": 2048, "layers": 32, "hidden": 4096, "heads": 32, "vocabulary": 32000}


def exact(N: int, L: int, D: int, H: int, V: int, B: int, b: Fraction) -> dict[str, Fraction]:
    """Equations (1)-(3) as the paper prints them, in rational arithmetic."""
    a = B * L * N * D * (2 + 16 * b + (2 * b + 1) * N * Fraction(H, D))
    return {
        "activations": a,
        "bp": 24 * b * L * D**2 + 4 * b * V * D + a,
        "mezo": 12 * b * L * D**2 + 2 * b * V * D + a / L,
    }


def paper(**changes: Any) -> Any:
    return sizes(**{**PAPER, **changes})


@given(
    N=st.integers(1, 40_000),
    L=st.integers(1, 128),
    head=st.integers(1, 128),
    H=st.integers(1, 64),
    V=st.integers(1, 300_000),
    B=st.integers(1, 32),
    b=st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)]),
)
def test_formulas_are_exact_to_the_byte(
    N: int, L: int, head: int, H: int, V: int, B: int, b: Fraction
) -> None:
    D = head * H
    s = sizes(
        context=N, layers=L, hidden=D, heads=H, vocabulary=V, batch=B, bytes_per_parameter=float(b)
    )
    want = exact(N, L, D, H, V, B, b)
    assert AS_PRINTED.layer_bytes(s) * L == want["activations"]
    assert AS_PRINTED.bp_bytes(s) == want["bp"]
    assert AS_PRINTED.mezo_bytes(s) == want["mezo"]
    assert AS_PRINTED.weight_bytes(s) == b * (12 * L * D**2 + 2 * V * D)


def test_checkpointing_puts_the_square_root_of_the_layers_in_their_place() -> None:
    s = paper()
    weights_and_gradients = 2 * AS_PRINTED.weight_bytes(s)
    kept = float(AS_PRINTED.bp_bytes(s, checkpointing=True) - weights_and_gradients)
    assert kept == pytest.approx(float(AS_PRINTED.layer_bytes(s)) * math.sqrt(32), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "checkpointing", "ratio"),
    [
        ({"context": 32768}, False, 29.88),
        ({"context": 16384}, False, 25.14),
        ({"context": 32768}, True, 5.40),
        ({"context": 16384}, True, 4.82),
        ({"layers": 1}, False, 1.49),
        ({"layers": 100}, False, 4.245),
        ({"layers": 23}, True, 2.249),
        ({"layers": 100}, True, 2.183),
        ({"hidden": 512}, False, 23.78),
        ({"hidden": 512}, True, 4.65),
        ({"hidden": 32768}, False, 2.11),
        ({"hidden": 32768}, True, 2.01),
    ],
)
def test_ratio_at_the_points_the_paper_quotes(
    changes: dict[str, int], checkpointing: bool, ratio: float
) -> None:
    digits, s = len(str(ratio).partition(".")[2]), paper(**changes)
    found = float(AS_PRINTED.bp_bytes(s, checkpointing=checkpointing) / AS_PRINTED.mezo_bytes(s))
    assert round(found, digits) == ratio


def test_checkpointed_ratio_peaks_at_23_layers() -> None:
    layers = np.arange(1, 101)
    s = paper(layers=layers)
    ratio = AS_PRINTED.bp_bytes(s, checkpointing=True) / AS_PRINTED.mezo_bytes(s)
    assert layers[ratio.argmax()] == 23


@pytest.mark.parametrize(
    ("model", "live_fraction", "gigabytes"),
    [
        ({"layers": 24, "hidden": 1024, "heads": 16, "vocabulary": 50257}, None, 24.6),
        ({}, 0.41, 46.0),
        ({"layers": 40, "hidden": 5120, "heads": 40}, 0.15, 44.4),
    ],
)
def test_none_of_the_settings_of_fig_4_takes_17_gb(
    model: dict[str, int], live_fraction: float | None, gigabytes: float
) -> None:
    s = paper(**model, context=1024, batch=8)
    total = (
        AS_PRINTED.bp_bytes(s)
        if live_fraction is None
        else AS_PRINTED.mezo_bytes(s, live_layers=live_fraction * s.L)
    )
    assert round(float(total) / 1e9, 1) == gigabytes


@pytest.mark.parametrize("axis", ["context", "layers", "hidden"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_limit_is_where_the_ratio_goes(axis: Any, checkpointing: bool) -> None:
    far = paper(**{axis: 2**40})
    value = float(
        AS_PRINTED.bp_bytes(far, checkpointing=checkpointing) / AS_PRINTED.mezo_bytes(far)
    )
    limit = float(AS_PRINTED.ratio_limit(paper(), axis, checkpointing=checkpointing))
    assert value == pytest.approx(limit, rel=1e-4)


def test_limits_of_the_paper() -> None:
    assert float(AS_PRINTED.ratio_limit(paper(), "layers")) == 4.375
    assert float(AS_PRINTED.ratio_limit(paper(), "layers", checkpointing=True)) == 2
    assert float(AS_PRINTED.ratio_limit(paper(), "hidden")) == 2
    assert float(AS_PRINTED.ratio_limit(paper(), "context")) == 32


def test_limit_without_live_layers_is_infinite_in_the_context() -> None:
    assert np.isinf(AS_PRINTED.ratio_limit(paper(), "context", live_layers=0))


def test_effective_layers_inverts_equation_3() -> None:
    s = paper(layers=[4, 32])
    peak = AS_PRINTED.mezo_bytes(s, live_layers=2.5)
    np.testing.assert_allclose(effective_layers(s, peak, AS_PRINTED.weight_bytes(s)), 2.5)


def test_arrays_broadcast() -> None:
    s = paper(context=np.array([[1], [2048]]), layers=np.array([1, 32, 100]))
    assert AS_PRINTED.bp_bytes(s).shape == (2, 3)
    assert float(AS_PRINTED.bp_bytes(s)[1, 1]) == float(AS_PRINTED.bp_bytes(paper()))


def test_parameter_count_of_llama_2_7b() -> None:
    assert float(parameter_count(paper())) == 12 * 32 * 4096**2 + 2 * 32000 * 4096


@pytest.mark.parametrize("name", ["context", "layers", "hidden", "heads", "vocabulary", "batch"])
@pytest.mark.parametrize("value", [0, -1, 2.5, math.nan, math.inf])
def test_a_size_that_is_no_positive_whole_number_is_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match="must be a finite whole number of at least 1"):
        paper(**{name: value})


def test_of_a_long_array_the_first_wrong_sizes_are_shown() -> None:
    with pytest.raises(UsageError, match=r"context length N = \[0.0\]: must be"):
        paper(context=[*range(1, 10_000), 0])
    with pytest.raises(UsageError, match=r"\[-1.0, -1.0, -1.0, ...\] \(50 numbers\): must be"):
        paper(context=50 * [-1])


@pytest.mark.parametrize("value", [0, -2, math.nan, math.inf])
def test_bytes_per_parameter_must_be_positive_and_finite(value: float) -> None:
    with pytest.raises(UsageError, match="bytes per parameter b"):
        paper(bytes_per_parameter=value)


def test_heads_must_divide_the_hidden_dimension() -> None:
    with pytest.raises(UsageError, match=r"heads H = 3 do not divide D = 4096"):
        paper(heads=3)


def test_at_most_all_layers_are_alive() -> None:
    s = paper(layers=[2, 32])
    np.testing.assert_array_equal(
        AS_PRINTED.mezo_bytes(s, 5), AS_PRINTED.mezo_bytes(s, np.array([2, 5]))
    )
