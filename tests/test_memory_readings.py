"""Readings of the MeZO paper's equations against the numbers it prints, by plain arithmetic."""

from dataclasses import replace
from math import ceil, sqrt

import pytest

from repro.core.errors import UsageError
from repro.memory.analytic import AS_PRINTED, sizes_of
from repro.memory.readings import (
    PRINTED,
    RECOVERED,
    is_equal_memory,
    largest_model,
    search_readings,
    size_ratio,
)
from repro.memory.shape import LLAMA2_7B

N, L, D, H, V, B_BYTES = 2048, 32, 4096, 32, 32000, 2


def by_hand(n: int = N, layers: int = L, d: int = D, *, checkpointed: bool = False) -> float:
    """BP over MeZO as recovered: 24 b L D^2 + 2 b V D + A, with ceil(sqrt(L)) layers kept."""
    b = B_BYTES
    layer = n * d * (2 + 16 * b) + (2 * b + 1) * n * n * H
    kept = ceil(sqrt(layers)) if checkpointed else layers
    bp = 24 * b * layers * d * d + 2 * b * V * d + kept * layer
    return bp / (12 * b * layers * d * d + 2 * b * V * d + layer)


def test_recovered_reading_gives_every_printed_number() -> None:
    assert round(by_hand(layers=1), 1) == 1.2
    assert round(by_hand(layers=100), 2) == 4.23
    peaks = [by_hand(layers=layers, checkpointed=True) for layers in range(1, 101)]
    assert round(max(peaks), 2) == 2.28
    assert peaks.index(max(peaks)) + 1 == 17
    assert round(peaks[-1], 2) == 2.17
    assert round(by_hand(d=512)) == 24
    assert round(by_hand(d=512, checkpointed=True)) == 5
    assert round(by_hand(n=16384)) == 25
    assert round(by_hand(n=16384, checkpointed=True)) == 5
    assert all(number.holds(RECOVERED) for number in PRINTED)


def test_recovered_reading_is_this_formula() -> None:
    for sizes in ({}, {"layers": 7}, {"context": 512}, {"hidden": 1024}):
        s = sizes_of(LLAMA2_7B, 2, **sizes)
        keys = {"layers": "layers", "context": "n", "hidden": "d"}
        mine = {keys[name]: value for name, value in sizes.items()}
        for checkpointed in (False, True):
            found = float(RECOVERED.ratio(s, checkpointing=checkpointed))
            assert found == pytest.approx(by_hand(**mine, checkpointed=checkpointed))


def test_one_reading_fits_and_none_explains_17_gb() -> None:
    found = search_readings()
    assert found.searched == 2 * 3 * 3 * 16 * 4 * 3 * 3 * 2 * 2
    assert found.fitting == [RECOVERED]
    assert found.equal_memory == 0
    assert not is_equal_memory(AS_PRINTED)


@pytest.mark.parametrize("growth", ["depth", "width"])
def test_largest_model_fills_the_budget(growth: str) -> None:
    budget = 40e9
    parameters = largest_model(LLAMA2_7B, budget, growth, AS_PRINTED.mezo_bytes)  # type: ignore[arg-type]
    layer = N * D * 34 + 5 * N * N * H
    if growth == "depth":  # linear in L
        layers = (budget - 4 * V * D - layer) / (24 * D * D)
        assert parameters == pytest.approx(12 * layers * D * D + 2 * V * D)
    else:  # a quadratic in D
        a, b, c = 24 * L, 4 * V + 34 * N, 5 * N * N * H - budget
        d = (-b + sqrt(b * b - 4 * a * c)) / (2 * a)
        assert parameters == pytest.approx(12 * L * d * d + 2 * V * d)


def test_model_sizes_at_equal_memory() -> None:
    """Never below 2 in the printed equations if depth grows; hundreds at a context of 32,768."""
    shapes = [replace(LLAMA2_7B, layers=layers) for layers in (1, 2, 8, 32, 100)]
    assert min(size_ratio(shape, "depth", AS_PRINTED) for shape in shapes) == pytest.approx(
        2, abs=0.01
    )
    long = replace(LLAMA2_7B, context=32768)
    assert 400 < size_ratio(long, "depth", AS_PRINTED) < 420
    assert 60 < size_ratio(long, "depth", AS_PRINTED, checkpointing=True) < 65


def test_a_budget_below_one_layer_is_refused() -> None:
    with pytest.raises(UsageError, match="too small for layers = 1; give at least"):
        largest_model(LLAMA2_7B, 1e8, "depth", AS_PRINTED.mezo_bytes)
