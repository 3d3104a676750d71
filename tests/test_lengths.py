"""Runs on clouds of several lengths: a longer one holds the shorter ones."""

from typing import Any

import msgspec
import pytest

from made_up import made
from repro.claims.trained import SeedGroups
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import Record, together

POINT = {"dataset": "modelnet40", "precision": "fp32", "method": "cls1"}


def cloud_run(epochs: int, utc: str, *, lr: float = 0.1, **changes: Any) -> Record:
    curve = [0.01 * epoch for epoch in range(epochs + 1)]
    metrics = {
        "test_accuracy": curve,
        "test_loss": curve,
        "train_loss": curve,
        "seconds": [1.0] * epochs,
        "diverged": False,
        "settings": {"lr": lr, "points": 1024, "epochs": epochs},
        "trained": {"engine": "native", "commit": "a" * 40, "dirty": False},
    }
    usual = {"artifact": "elasticzo_table1", "point": POINT, "metrics": metrics, "utc": utc}
    return made(**usual | changes)


def lengths(records: list[Record]) -> list[int]:
    return sorted(record.metrics["settings"]["epochs"] for record in records)


@pytest.mark.parametrize("order", [(50, 80), (80, 50)])
def test_a_later_shorter_run_does_not_hide_a_longer_one(order: tuple[int, int]) -> None:
    runs = [[cloud_run(n, f"2026-01-0{day}T00:00:00Z")] for day, n in enumerate(order, start=1)]
    kept = together(runs)
    assert lengths(kept) == [80]
    (group,) = [group for group in SeedGroups(kept) if group.length == 80]
    shorter = {other.length: other.last for other in SeedGroups(kept).others(POINT)}
    assert group.last == {0: pytest.approx(80)}
    assert shorter[50] == {0: pytest.approx(50)}


def test_of_two_runs_of_one_length_the_newest_counts() -> None:
    runs = [[cloud_run(80, f"2026-01-0{day}T00:00:00Z")] for day in (1, 2)]
    for order in (runs, runs[::-1]):
        assert [record.utc for record in together(order)] == [runs[1][0].utc]


def test_a_run_that_diverged_late_had_not_diverged_before() -> None:
    whole = cloud_run(200, "2026-01-01T00:00:00Z")
    ending = {"diverged": True, "divergence": "epoch 80: nan"}
    metrics = dict(whole.metrics, seconds=[1.0] * 79, **ending)
    for name in ("test_accuracy", "test_loss", "train_loss"):
        metrics[name] = metrics[name][:80]  # before training and after 79 epochs
    diverged = msgspec.structs.replace(whole, metrics=metrics)
    settings = whole.metrics["settings"]
    for epochs, expected in ((50, False), (79, False), (80, True), (100, True), (200, True)):
        found = PriorResults([diverged]).metrics("run", POINT, 0, {**settings, "epochs": epochs})
        assert found is not None
        assert found["diverged"] is expected, epochs
        assert bool(found["divergence"]) is expected, epochs


def test_a_later_run_with_other_settings_replaces_a_longer_one() -> None:
    runs = [
        [cloud_run(80, "2026-01-01T00:00:00Z")],
        [cloud_run(50, "2026-01-02T00:00:00Z", lr=0.2)],
    ]
    assert lengths(together(runs)) == [50]


def test_a_longer_recorded_run_answers_for_a_shorter_one() -> None:
    recorded = cloud_run(80, "2026-01-01T00:00:00Z")
    prior = PriorResults([recorded])
    settings = recorded.metrics["settings"]
    found = prior.metrics("run", POINT, 0, {**settings, "epochs": 50})
    assert found is not None
    assert found["test_accuracy"] == recorded.metrics["test_accuracy"][:51]
    assert (len(found["seconds"]), found["settings"]["epochs"]) == (50, 50)
    assert prior.metrics("run", POINT, 0, settings) == recorded.metrics
    assert prior.metrics("run", POINT, 0, {**settings, "epochs": 81}) is None
    assert prior.metrics("run", POINT, 0, {**settings, "epochs": 50, "lr": 0.2}) is None
    assert prior.metrics("run", POINT, 1, settings) is None
