"""The paper's words on loss curves: the numbers they are read as, and the findings from records."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from made_up import made
from reading import numbers
from repro.artifacts import index
from repro.claims.loss_curves import CONTRASTS, drop, early_loss, fluctuation, late_fall
from repro.claims.plausible import contrast_range
from repro.claims.verdict import Finding
from repro.measurement.records import Record, read_runs
from repro.report.runs import current_runs

RESULTS = Path(__file__).parents[1] / "results"


def test_a_straight_line_does_not_fluctuate() -> None:
    assert fluctuation([3 - 0.02 * epoch for epoch in range(101)]) == pytest.approx(0, abs=1e-12)


def test_a_zigzag_fluctuates_by_its_height() -> None:
    assert fluctuation([1 + 0.25 * (epoch % 2) for epoch in range(101)]) == pytest.approx(0.25)


def test_a_line_falls_late_by_ten_epochs_worth() -> None:
    assert late_fall([3 - 0.02 * epoch for epoch in range(101)]) == pytest.approx(0.2)


def test_the_early_loss_leaves_out_the_one_before_training() -> None:
    assert early_loss([100.0, *(float(epoch) for epoch in range(1, 21))]) == pytest.approx(5.5)


def test_a_line_has_no_drop_and_a_step_has_its_height() -> None:
    line = np.linspace(3, 1, 101)
    assert drop(line.tolist(), after=20) == pytest.approx(0, abs=1e-12)
    step = np.where(np.arange(101) > 20, 0.4, 1.0)
    assert drop((line + step).tolist(), after=20) == pytest.approx(0.6)
    assert drop((line + step).tolist(), after=50) == pytest.approx(0, abs=1e-12)


def records(slug: str) -> list[Record]:
    return read_runs(current_runs(RESULTS, slug))


def finding(slug: str, claim_id: str, of: Iterable[Record]) -> Finding:
    found = index.load(slug).findings(list(of))
    return next(one for one in found if one.claim_id == claim_id)


def test_the_late_fall_of_the_committed_runs_as_numpy_has_it() -> None:
    newest: dict[tuple[str, int], tuple[str, list[float]]] = {}
    for path in (RESULTS / "elasticzo_fig2").glob("paper-*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["point"].get("method") == "full_zo":
                where = (record["point"]["dataset"], record["seed"])
                if where not in newest or record["utc"] > newest[where][0]:
                    newest[where] = (record["utc"], record["metrics"]["train_loss"])
    falls = {}
    for dataset in ("mnist", "fashion_mnist"):
        curves = np.array([curve for (name, _), (_, curve) in newest.items() if name == dataset])
        falls[dataset] = curves[:, 81:91].mean(1) - curves[:, 91:101].mean(1)
    spread = {
        name: stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
        for name, values in falls.items()
    }
    least = min(falls, key=lambda name: falls[name].mean() - spread[name])
    found = finding("elasticzo_fig2", "B-F2-slow", records("elasticzo_fig2"))
    assert found.ours == pytest.approx(falls[least].mean())
    assert found.interval == pytest.approx(spread[least])


def zigzag(method: str, dataset: str, seed: int, height: float, **changes: Any) -> Record:
    """A made-up run of 100 epochs whose train loss fluctuates by ``height``."""
    curve = [1 + height * (epoch % 2) for epoch in range(changes.pop("epochs", 100) + 1)]
    point = {"dataset": dataset, "precision": "fp32", "method": method}
    metrics = {
        "train_loss": curve, "test_loss": curve, "test_accuracy": [0.5] * len(curve),
        "settings": {"lr": 0.1},
    }  # fmt: skip
    return made(point, metrics, artifact="elasticzo_fig2", seed=seed, **changes)


def test_a_contrast_is_the_difference_of_two_methods_in_its_least_certain_set() -> None:
    heights = {
        ("full_zo", "mnist"): (0.30, 0.32, 0.34),
        ("cls1", "mnist"): (0.10, 0.10, 0.10),
        ("full_zo", "fashion_mnist"): (0.80, 0.30, 0.30),  # larger, but less certain
        ("cls1", "fashion_mnist"): (0.10, 0.10, 0.10),
    }
    runs = [
        zigzag(method, dataset, seed, height, profile="quick" if method == "cls1" else "paper")
        for (method, dataset), of in heights.items()
        for seed, height in enumerate(of)
    ]
    # a run that ended before epoch 100 does not count
    runs += [zigzag(method, "mnist", 3, 9.0, epochs=99) for method in ("full_zo", "cls1")]
    found = finding("elasticzo_fig2", "B-F2-fluctuation", runs)
    gaps = [0.7, 0.2, 0.2]
    assert found.ours == pytest.approx(np.mean(gaps))
    assert found.interval == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(gaps))
    assert (found.n_seeds, found.profile) == (3, "quick")  # the lower profile of both sides


def test_a_contrast_of_one_seed_leaves_the_whole_open_and_lost_seeds_are_told() -> None:
    runs = [
        zigzag(method, dataset, seed, height)
        for dataset, seeds in (("mnist", 3), ("fashion_mnist", 1))
        for method, height in (("full_zo", 0.3), ("cls1", 0.1))
        for seed in range(seeds)
    ]
    whole = finding("elasticzo_fig2", "B-F2-fluctuation", runs)
    assert (whole.n_seeds, whole.interval) == (1, None)
    runs[1] = zigzag("full_zo", "mnist", 1, 0.3, epochs=60)
    cut = finding("elasticzo_fig2", whole.claim_id, runs).reason
    assert cut != whole.reason
    assert 1 in numbers(cut)  # a seed that was not trained long enough


def test_other_settings_of_a_curve_give_a_range() -> None:
    """On Fashion-MNIST at 0.05 - 0.1 and 0.4 - 0.1; MNIST's 0.2 is the smaller of the largest."""
    runs = [
        zigzag(method, dataset, seed, height)
        for dataset, full_zo in (("mnist", 0.3), ("fashion_mnist", 0.05))
        for method, height in (("full_zo", full_zo), ("cls1", 0.1))
        for seed in range(2)
    ]
    (contrast,) = (CONTRASTS[claim] for claim in CONTRASTS if claim.id == "B-F2-fluctuation")
    assert contrast_range(contrast, runs) is None  # each has one setting
    earlier = [zigzag("full_zo", "fashion_mnist", seed, 0.4) for seed in range(2)]
    for one in earlier:
        one.metrics["settings"] = {"lr": 0.2}
    assert contrast_range(contrast, [*earlier, *runs]) == pytest.approx((-0.05, 0.2))
    loud = [9.0 * (epoch % 2) for epoch in range(101)]
    again = [  # replaced by those of the same settings and seeds
        msgspec.structs.replace(
            one, utc="2001-01-01T00:00:00Z", metrics={**one.metrics, "train_loss": loud}
        )
        for one in earlier
    ]
    assert contrast_range(contrast, [*earlier, *again, *runs]) == pytest.approx((-0.05, 0.2))
    short = [
        msgspec.structs.replace(one, metrics={**one.metrics, "train_loss": [1.0] * 50})
        for one in earlier
    ]
    assert contrast_range(contrast, [*short, *runs]) is None


def test_a_curve_that_ends_early_gives_no_value() -> None:
    short = [
        msgspec.structs.replace(
            record, metrics={**record.metrics, "train_loss": record.metrics["train_loss"][:50]}
        )
        for record in records("elasticzo_fig2")
    ]
    found = finding("elasticzo_fig2", "B-F2-slow", short)
    assert found.ours is None
    assert 100 in numbers(found.reason)  # the epoch that is missing


def test_a_curve_that_was_not_run_is_named() -> None:
    without = [r for r in records("elasticzo_fig3") if r.point["method"] != "full_zo"]
    found = finding("elasticzo_fig3", "B-F3-early", without)
    assert found.ours is None
    assert "Full ZO on MNIST, INT8" in found.reason
