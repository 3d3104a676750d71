"""Means and intervals over seeds against closed forms."""

import itertools
import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.claims.statistics import (
    MeanEstimate,
    bootstrap_interval,
    estimate,
    holm,
    sign_flip_p,
)


def test_two_seeds_follow_the_cauchy_distribution() -> None:
    # one degree of freedom: the quantile is tan(0.475 pi), and s / sqrt(2) is half the distance
    found = estimate([90.0, 91.0])
    assert found.mean == 90.5
    assert found.interval == pytest.approx(0.5 * math.tan(0.475 * math.pi), rel=1e-12)
    assert found.n_seeds == 2


def test_three_seeds_against_the_closed_form_of_two_degrees_of_freedom() -> None:
    # quantile of t with 2 degrees of freedom: (2p - 1) sqrt(2 / (4p (1 - p))) at p = 0.975
    quantile = 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025))
    assert estimate([1.0, 2.0, 3.0]).interval == pytest.approx(quantile / math.sqrt(3), rel=1e-12)


@pytest.mark.parametrize(("n", "quantile"), [(5, 2.776), (10, 2.262), (31, 2.042)])
def test_the_printed_table_of_student(n: int, quantile: float) -> None:
    values = [float(i) for i in range(n)]
    interval = estimate(values).interval
    assert interval is not None
    assert round(interval * math.sqrt(n) / statistics.stdev(values), 3) == quantile


def test_one_seed_has_no_interval() -> None:
    assert estimate([89.8]) == MeanEstimate(89.8, None, 1)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([1.0, 2.0, 3.0], 1 / 8),  # the highest of all sums
        ([1.0, 2.0, -0.5], 2 / 8),
        ([3.0, -3.0], 3 / 4),  # sums 6, 0, 0, -6: three are no lower than 0
        ([-1.0, -2.0, -3.0, -4.0, -5.0], 1.0),
        ([0.1] * 5, 1 / 32),
    ],
)
def test_p_counts_the_signs_that_do_as_well(gaps: list[float], expected: float) -> None:
    assert sign_flip_p(gaps) == pytest.approx(expected)


@given(st.lists(st.sampled_from([-0.3, -0.1, 0.0, 0.1, 0.2, 0.7]), min_size=2, max_size=9))
def test_p_is_that_of_all_choices_of_signs(gaps: list[float]) -> None:
    exact = [round(10 * gap) for gap in gaps]  # in tenths, whose sums are exact
    choices = itertools.product((1, -1), repeat=len(gaps))
    sums = [sum(s * gap for s, gap in zip(signs, exact, strict=True)) for signs in choices]
    assert sign_flip_p(gaps) == sum(total >= sum(exact) for total in sums) / len(sums)


def test_many_seeds_take_little_time() -> None:
    assert sign_flip_p([1.0 + seed / 100 for seed in range(30)]) == 2.0**-30


def test_one_seed_has_no_p() -> None:
    assert sign_flip_p([3.0]) is None


def test_seeds_that_agree_have_an_interval_of_nothing() -> None:
    assert estimate([0.5, 0.5, 0.5]) == MeanEstimate(0.5, 0.0, 3)


def test_no_seed_is_an_error() -> None:
    with pytest.raises(statistics.StatisticsError):
        estimate([])


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    draw = random.Random(0)
    hits = 0
    for _ in range(2000):
        found = estimate([draw.gauss(90, 2) for _ in range(4)])
        assert found.interval is not None
        hits += abs(found.mean - 90) <= found.interval
    assert 0.935 < hits / 2000 < 0.965  # three standard errors of a share of 0.95


def difference(means: Any) -> Any:
    return means[1] - means[0]


def test_the_bootstrap_against_all_resamples() -> None:
    strata = [1.0, 2.0, 4.0], [10.0, 30.0]
    low, high = (
        [statistics.fmean(drawn) for drawn in itertools.product(s, repeat=len(s))] for s in strata
    )
    everything = sorted(one - other for one in high for other in low)  # 4 x 27, equally likely
    found = bootstrap_interval(strata, difference)
    assert found == pytest.approx([everything[2], everything[-3]], abs=0.5)  # 2.5 % of 108
    assert found == bootstrap_interval(strata, difference)


def test_strata_are_not_mixed() -> None:
    assert bootstrap_interval([[1.0] * 3, [5.0] * 4], difference) == (4.0, 4.0)


def test_a_stratum_of_one_seed_has_no_bootstrap() -> None:
    assert bootstrap_interval([[1.0], [5.0, 6.0]], difference) is None


@pytest.mark.parametrize(("n", "bootstrap"), [(3, 0.78), (5, 0.86)])
def test_the_bootstrap_of_few_seeds_is_too_narrow_for_verdicts(
    n: int, bootstrap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repro.claims.statistics.RESAMPLES", 500)
    draw = random.Random(n)
    rounds, by_bootstrap, by_student = 400, 0, 0
    for _ in range(rounds):
        low = [draw.gauss(90, 1) for _ in range(n)]
        high = [draw.gauss(95, 2) for _ in range(n)]
        interval = bootstrap_interval([low, high], difference)
        student = estimate([b - a for a, b in zip(low, high, strict=True)])
        assert interval is not None
        assert student.interval is not None
        by_bootstrap += interval[0] <= 5 <= interval[1]
        by_student += abs(student.mean - 5) <= student.interval
    assert by_bootstrap / rounds == pytest.approx(bootstrap, abs=0.06)  # three standard errors
    assert by_student / rounds == pytest.approx(0.95, abs=0.035)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=5))
def test_holm_is_the_closure_of_bonferroni(p_values: list[float]) -> None:
    """A hypothesis is rejected if every set of hypotheses that has it is (Marcus et al. 1976)."""
    places = range(len(p_values))
    sets = [
        chosen
        for size in range(1, len(p_values) + 1)
        for chosen in itertools.combinations(places, size)
    ]
    expected = [
        max(
            min(1.0, len(chosen) * min(p_values[place] for place in chosen))
            for chosen in sets
            if each in chosen
        )
        for each in places
    ]
    assert holm(p_values) == pytest.approx(expected)
