"""The search behind claim A8."""

from fractions import Fraction

import pytest

from repro.memory.equal_memory import SET_UPS, Grid, bytes_per_parameter_for, search_settings


def bp(N: int, L: int, D: int, H: int, V: int, B: int, b: Fraction) -> Fraction:
    a = B * L * N * D * (2 + 16 * b + (2 * b + 1) * N * Fraction(H, D))
    return 24 * b * L * D**2 + 4 * b * V * D + a


def mezo(N: int, L: int, D: int, H: int, B: int, b: Fraction, live: Fraction) -> Fraction:
    a = B * N * D * (2 + 16 * b + (2 * b + 1) * N * Fraction(H, D))
    return 12 * b * L * D**2 + 2 * b * 32000 * D + live * L * a


def near(value: Fraction) -> bool:
    return abs(value - 17 * 10**9) <= 5 * 10**8


def test_no_setting_gives_17_gb_for_all_three_at_the_published_fractions() -> None:
    found = search_settings(Grid())
    assert found["searched"] == 4 * 64 * 4096
    assert found["published_fractions"] == 0


def test_with_free_fractions_only_formats_below_16_bit_have_settings() -> None:
    free = search_settings(Grid())["free_fractions"]
    assert free["2"] == free["4"] == 0
    assert free["1"] > 0
    assert free["0.5"] > 0


def test_counts_agree_with_a_loop_in_rational_arithmetic() -> None:
    grid = Grid(bytes_per_parameter=(1, 2), largest_batch=9, largest_context=1200)
    both = sum(
        near(bp(n, 24, 1024, 16, 50257, batch, Fraction(1)))
        and mezo(n, 32, 4096, 32, batch, Fraction(1), Fraction(1)) >= 165 * 10**8
        and mezo(n, 40, 5120, 40, batch, Fraction(1), Fraction(1)) >= 165 * 10**8
        for batch in range(1, 10)
        for n in range(1, 1201)
    )
    assert search_settings(grid)["free_fractions"] == {"1": both, "2": 0}


def test_the_example_really_gives_17_gb() -> None:
    example = search_settings(Grid())["example"]
    N, B = int(example["context"]), int(example["batch"])
    b = Fraction(example["bytes_per_parameter"])
    small, large = (Fraction(example[f"live_fraction_{name}"]) for name in ("7b", "13b"))
    assert near(bp(N, 24, 1024, 16, 50257, B, b))
    assert near(mezo(N, 32, 4096, 32, B, b, small))
    assert near(mezo(N, 40, 5120, 40, B, b, large))


def test_bytes_per_parameter_that_would_give_gpt2_medium_17_gb() -> None:
    b = Fraction(bytes_per_parameter_for(SET_UPS["gpt2-medium"].shape))
    assert float(bp(1024, 24, 1024, 16, 50257, 8, b)) == pytest.approx(17e9, rel=1e-12)
