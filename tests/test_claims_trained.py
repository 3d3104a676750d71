"""Findings from the cells that were trained."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from made_up import made
from reading import numbers
from repro.claims.elasticzo import QUANTITIES
from repro.claims.index import CLAIMS
from repro.claims.plausible import plausible_ranges
from repro.claims.quantity import Accuracy, Gaps, order
from repro.claims.statistics import estimate, prediction_half_width
from repro.claims.trained import SeedGroups, findings, sampling_variance
from repro.claims.verdict import Finding, verdict
from repro.measurement.records import Record, together

ZO = {"dataset": "mnist", "precision": "fp32", "method": "full_zo"}
CLS2 = {**ZO, "method": "cls2"}
BP = {**ZO, "method": "full_bp"}


def run(point: dict[str, Any], seed: int, accuracy: Sequence[float], **changes: Any) -> Record:
    metrics = {"test_accuracy": [0.1, *accuracy], "settings": {"lr": 0.002}}
    usual = {"artifact": "elasticzo_table1", "seed": seed, "metrics": metrics}
    return made(point, **usual | changes)


def finding(quantity: Accuracy | Gaps, records: list[Record]) -> Finding:
    (found,) = findings({"X": quantity}, records)
    assert found.claim_id == "X"
    return found


def test_an_accuracy_is_the_mean_of_the_last_epoch_over_seeds() -> None:
    records = [run(ZO, 0, [0.85, 0.90]), run(ZO, 1, [0.93, 0.88]), run(BP, 0, [0.99, 0.99])]
    found = finding(Accuracy(ZO), records)
    expected = estimate([90.0, 88.0])
    assert found.ours == pytest.approx(89.0)
    assert found.interval == pytest.approx(expected.interval)
    assert (found.n_seeds, found.profile) == (2, "paper")
    assert numbers(found.reason) == [2, 91.5, 0, 1]  # epochs, the mean of the best, seeds


def test_a_seed_on_a_gpu_does_not_displace_those_of_a_cpu() -> None:
    on_cpu = [run(ZO, seed, [0.9]) for seed in range(3)]
    metrics = {"test_accuracy": [0.1, 0.8], "settings": {"lr": 0.002, "device": "cuda"}}
    on_gpu = run(ZO, 0, [0.8], metrics=metrics, utc="2026-02-01T00:00:00Z")
    kept = together([on_cpu, [on_gpu]])
    found = finding(Accuracy(ZO), kept)
    assert (found.ours, found.n_seeds) == (pytest.approx(90), 3)
    assert found.others == {"cuda": pytest.approx(80)}
    assert numbers(found.reason) == [1, 90, 0, 2]  # epochs, best, seeds: none left out


@pytest.mark.parametrize(
    ("before", "epochs", "last", "best"),
    [
        (0.1, [0.5, 0.9, 0.8], 80, 90),
        (0.95, [0.5, 0.6], 60, 60),  # before training does not count as an epoch
        (0.74, [], 74, 74),  # nothing was trained
    ],
)
def test_last_and_best_epoch(before: float, epochs: list[float], last: int, best: int) -> None:
    record = run(ZO, 0, epochs)
    record.metrics["test_accuracy"][0] = before
    (group,) = SeedGroups([record])
    assert (group.last, group.best) == ({0: pytest.approx(last)}, {0: pytest.approx(best)})


def test_a_row_without_training() -> None:
    (record,) = [run({**ZO, "method": "none"}, 0, [])]
    found = finding(Accuracy({**ZO, "method": "none"}), [record])
    assert found.ours == pytest.approx(10.0)
    assert found.interval is None
    assert numbers(found.reason) == [0]  # the seed


@pytest.mark.parametrize("other", [{**ZO, "dataset": "shapes40"}, {**ZO, "angle": 30}, CLS2])
def test_other_cells_never_answer(other: dict[str, Any]) -> None:
    found = finding(Accuracy(ZO), [run(other, 0, [0.9]), run(ZO, 0, [0.9], kind="search")])
    assert (found.ours, found.profile) == (None, None)
    assert "Full ZO on MNIST, FP32" in found.reason


def test_a_stand_in_for_modelnet40_answers_no_claim_on_it() -> None:
    stand_in = [
        run({"dataset": "shapes40", "precision": "fp32", "method": method}, 0, [0.99])
        for method in ("full_zo", "cls2", "cls1", "full_bp")
    ]
    table1 = {name: q for name, q in QUANTITIES.items() if name.startswith("B-T1")}
    assert (
        len(table1) == 26 + 7 + 14 + 12 + 2
    )  # numbers, orders, differences, gaps to Full BP, ModelNet40 in words
    assert {found.ours for found in findings(table1, stand_in)} == {None}


def test_a_gap_is_taken_seed_by_seed() -> None:
    records = [
        *(run(ZO, seed, [value]) for seed, value in ((0, 0.80), (1, 0.84), (2, 0.70))),
        *(run(CLS2, seed, [value]) for seed, value in ((1, 0.90), (0, 0.88), (3, 0.99))),
    ]
    found = finding(Gaps(((ZO, CLS2),)), records)
    expected = estimate([8.0, 6.0])  # of the seeds that both have
    assert found.ours == pytest.approx(7.0)
    assert found.interval == pytest.approx(expected.interval)
    assert found.n_seeds == 2
    assert found.reason.index("ZO-Feat-Cls2") < found.reason.index("Full ZO on MNIST, FP32")
    assert numbers(found.reason) == [0, 1]  # the seeds


def test_the_best_epochs_of_a_gap_are_those_of_each_side() -> None:
    records = [
        *(run(ZO, seed, curve) for seed, curve in enumerate(([0.90, 0.80], [0.90, 0.82]))),
        *(run(CLS2, seed, curve) for seed, curve in enumerate(([0.85, 0.86], [0.95, 0.84]))),
    ]
    found = finding(Gaps(((ZO, CLS2),)), records)
    assert found.ours == pytest.approx(statistics.fmean([6.0, 2.0]))
    best = [86.0 - 90.0, 95.0 - 90.0]
    assert found.best == pytest.approx(statistics.fmean(best))
    t95 = stats.t.ppf(0.975, 1)
    assert found.best_prediction == pytest.approx(t95 * statistics.stdev(best) * 1.5**0.5)


def test_the_choice_of_rotated_images_widens_the_prediction() -> None:
    """By 1.96 standard deviations of the difference of two samples of 1,024, in quadrature."""
    rotated = {**ZO, "angle": 30}
    found = finding(Accuracy(rotated), [run(rotated, 0, [0.80]), run(rotated, 1, [0.82])])
    over_seeds = stats.t.ppf(0.975, 1) * statistics.stdev([80.0, 82.0]) * 1.5**0.5
    over_images = 100 * stats.norm.ppf(0.975) * (2 * one_sample(0.81)) ** 0.5
    assert found.prediction == pytest.approx((over_seeds**2 + over_images**2) ** 0.5, rel=1e-4)
    expected = 1e4 * (one_sample(0.07) + one_sample(0.8))
    assert sampling_variance([7.0, 80.0], rotated) == pytest.approx(expected, rel=2e-4)
    assert sampling_variance([7.0, 80.0], ZO) == 0


def one_sample(share: float) -> float:
    """The variance of a share counted on 1,024 of 10,000 images, drawn without replacement."""
    drawn = stats.hypergeom(10_000, round(10_000 * share), 1024)
    return float(drawn.var()) / 1024**2


def test_a_prediction_holds_on_another_sample_of_images() -> None:
    """Twenty seeds on one sample; the published accuracy is of one more run on another."""
    generator = np.random.default_rng(0)
    fits, trials = 0, 2_000
    for _ in range(trials):
        right = generator.random(10_000) < 0.8  # as difficult for every seed
        ours, theirs = (generator.choice(right, 1024, replace=False).mean() for _ in range(2))
        accuracies = 100 * ours + generator.normal(0, 0.8, 21)
        variance = 2 * sampling_variance([accuracies[:20].mean()], {**ZO, "angle": 30})
        width = prediction_half_width(list(accuracies[:20]), variance)
        assert width is not None
        published = accuracies[20] + 100 * (theirs - ours)
        fits += abs(published - accuracies[:20].mean()) <= width
    assert 0.935 < fits / trials < 0.965


def seeds(point: dict[str, Any], *accuracies: float) -> list[Record]:
    return [run(point, seed, [value]) for seed, value in enumerate(accuracies)]


def test_the_gap_that_counts_is_the_smallest_or_the_largest() -> None:
    records = [*seeds(ZO, 0.80), *seeds(CLS2, 0.90), *seeds(BP, 0.89)]
    pairs = order(ZO, CLS2, BP).pairs
    found = finding(Gaps(pairs, "smallest"), records)
    assert found.ours == pytest.approx(-1.0)
    assert finding(Gaps(pairs, "largest"), records).ours == pytest.approx(10.0)
    assert finding(order(ZO, CLS2, BP), records).ours == pytest.approx(-1.0)  # of one seed each


def test_the_smallest_and_the_largest_gap_are_those_of_each_seed() -> None:
    """A paper prints the smallest of single runs; the smallest mean would be larger."""
    first, second = [4.0, 5.0, 6.0], [1.0, 6.0, 14.0]
    records = [
        *seeds(ZO, 0.5, 0.5, 0.5),
        *seeds(CLS2, *(0.5 + gap / 100 for gap in first)),
        *seeds(BP, *(0.5 + gap / 100 for gap in second)),
    ]
    pairs = ((ZO, CLS2), (ZO, BP))
    for pick, by_seed in (("smallest", [1.0, 5.0, 6.0]), ("largest", [4.0, 6.0, 14.0])):
        found, expected = finding(Gaps(pairs, pick), records), estimate(by_seed)  # type: ignore[arg-type]
        assert found.ours == pytest.approx(expected.mean)
        assert found.interval == pytest.approx(expected.interval)
        assert found.prediction == pytest.approx(prediction_half_width(by_seed))
    assert finding(Gaps(pairs), [*records[:6], *seeds(BP, 0.9)]).interval is None


@pytest.mark.parametrize("pick", ["smallest", "least certain"])
def test_the_gap_that_counts_is_picked_again_for_the_best_epochs(pick: Any) -> None:
    records = [
        *[run(ZO, seed, [0.60, 0.50]) for seed in range(3)],
        *[run(CLS2, seed, [0.62, 0.60]) for seed in range(3)],  # 10 points at the end, 2 at best
        *[run(BP, seed, [0.65, 0.55]) for seed in range(3)],  # 5 points at the end and at best
    ]
    found = finding(Gaps(((ZO, CLS2), (ZO, BP)), pick), records)
    assert found.ours == pytest.approx(5.0)
    assert found.best == pytest.approx(2.0)


def test_a_gap_compares_groups_of_one_engine_where_it_can() -> None:
    def trained(point: dict[str, Any], engine: str, *accuracies: float) -> list[Record]:
        return [
            msgspec.structs.replace(
                record, metrics={**record.metrics, "trained": {"engine": engine, "threads": 1}}
            )
            for record in seeds(point, *accuracies)
        ]

    records = [
        *trained(ZO, "native", 0.70, 0.70, 0.70),
        *trained(ZO, "torch", 0.80, 0.80),
        *trained(CLS2, "torch", 0.85, 0.85, 0.85),
    ]
    found = finding(order(ZO, CLS2), records)
    assert found.ours == pytest.approx(5.0)
    assert (found.n_seeds, found.engine) == (2, "torch")
    one = [*trained(ZO, "native", 0.7, 0.7, 0.7), *trained(CLS2, "torch", 0.8, 0.8, 0.8)]
    found = finding(order(ZO, CLS2), [*one, *trained(ZO, "torch", 0.75)])
    assert (found.n_seeds, found.engine) == (3, "native and torch")  # one seed displaces no three


def test_a_large_gap_that_the_seeds_do_not_settle_decides_an_order() -> None:
    zo, cls2, bp = (0.80, 0.81, 0.82), (0.95, 0.99, 0.70), (0.96, 1.00, 0.71)
    found = finding(order(ZO, CLS2, BP), [*seeds(ZO, *zo), *seeds(CLS2, *cls2), *seeds(BP, *bp)])
    expected = estimate([15.0, 18.0, -12.0])
    assert found.ours == pytest.approx(expected.mean)  # not 1.0, though the same for every seed
    assert found.interval == pytest.approx(expected.interval)
    assert numbers(found.reason)[0] == 2  # gaps in the order
    assert found.p_value == pytest.approx(2 / 8)  # one seed of three has the reverse
    assert finding(order(ZO, CLS2), [*seeds(ZO, 0.8), *seeds(CLS2, 0.9)]).p_value is None


def test_a_gap_that_is_surely_negative_decides_an_order() -> None:
    zo, cls2, bp = (0.80, 0.81, 0.82), (0.95, 0.99, 0.70), (0.94, 0.98, 0.69)
    found = finding(order(ZO, CLS2, BP), [*seeds(ZO, *zo), *seeds(CLS2, *cls2), *seeds(BP, *bp)])
    assert found.ours == pytest.approx(-1.0)  # though the other one's interval begins lower


def of_seeds(**values: list[float]) -> list[Record]:
    points = {"zo": ZO, "cls2": CLS2, "bp": BP}
    return [
        run(points[name], seed, [value / 100])
        for name, of in values.items()
        for seed, value in enumerate(of)
    ]


def means_of_draws(values: list[float]) -> list[float]:
    return [statistics.fmean(draw) for draw in itertools.product(values, repeat=len(values))]


def test_the_bootstrap_resamples_the_seeds_of_the_value() -> None:
    zo, cls2, bp = [80.0, 82.0, 85.0], [83.0, 84.0, 88.0, 90.0], [88.0, 90.0, 99.0]
    records = of_seeds(zo=zo, cls2=cls2, bp=bp)
    common = cls2[:3]  # the fourth seed has no run of the other method
    gaps = sorted(b - a for a in means_of_draws(zo) for b in means_of_draws(common))
    tail = len(gaps) // 40  # 2.5 %
    found = finding(order(ZO, CLS2), records).bootstrap
    assert found == pytest.approx([gaps[tail], gaps[-1 - tail]], abs=0.35)  # they are discrete
    smallest = sorted(means_of_draws([3.0, 2.0, 3.0]))
    picked = finding(Gaps(order(ZO, CLS2, BP).pairs, "smallest"), records).bootstrap
    assert picked == pytest.approx([smallest[0], smallest[-1]])  # each above 2.5 % of the draws
    assert finding(order(ZO, CLS2), [*seeds(ZO, 0.8), *seeds(CLS2, 0.9)]).bootstrap is None
    of_one = sorted(means_of_draws(zo))
    found = finding(Accuracy(ZO), records).bootstrap
    assert found == pytest.approx([of_one[0], of_one[-1]])  # each 1 of 27 draws, above 2.5 %
    assert finding(Accuracy(ZO), seeds(ZO, 0.8)).bootstrap is None


def test_a_gap_of_one_seed_leaves_an_order_open() -> None:
    found = finding(order(ZO, CLS2, BP), of_seeds(zo=[80, 81, 82], cls2=[90, 91, 92], bp=[99]))
    assert found.interval is None
    claim = CLAIMS["B-T1-mnist-fp32-order"]
    assert verdict(claim, replace(found, claim_id=claim.id)) == "undecided"


def test_a_gap_needs_both_sides_and_a_seed_of_both() -> None:
    gap = Gaps(((ZO, CLS2),))
    alone = finding(gap, [run(ZO, 0, [0.8])])
    assert alone.ours is None
    assert "ZO-Feat-Cls2 on MNIST, FP32" in alone.reason  # the side that is missing
    assert "Full ZO" not in alone.reason
    apart = finding(gap, [run(ZO, 0, [0.8]), run(CLS2, 1, [0.8])])
    assert apart.ours is None
    assert all(side in apart.reason for side in ("Full ZO", "ZO-Feat-Cls2"))


def test_a_gap_has_the_lower_profile_of_its_sides() -> None:
    records = [run(ZO, 0, [0.8]), run(CLS2, 0, [0.9], profile="quick")]
    assert finding(Gaps(((ZO, CLS2),)), records).profile == "quick"


def test_an_order_has_the_lowest_profile_of_all_pairs_whichever_gap_is_the_smallest() -> None:
    records = [run(ZO, 0, [0.8]), run(CLS2, 0, [0.81]), run(BP, 0, [0.99], profile="quick")]
    found = finding(order(ZO, CLS2, BP), records)
    assert found.ours == pytest.approx(1.0)
    assert found.profile == "quick"


def test_seeds_of_other_settings_are_no_part_of_the_mean() -> None:
    older = {"test_accuracy": [0.1, 0.5], "settings": {"lr": 0.1}}
    records = [
        run(ZO, 0, [0.9], utc="2026-01-03T00:00:00Z"),
        run(ZO, 1, [0.9], metrics=older),
        run(ZO, 3, [0.8]),
    ]
    found = finding(Accuracy(ZO), records)
    assert found.ours == pytest.approx(85.0)
    assert numbers(found.reason)[-3:] == [0, 3, 1]  # the seeds, and how many were left out
    cell = SeedGroups(records).get(ZO)
    assert cell is not None
    assert [record.seed for record in cell.records] == [0, 3]


def test_a_seed_that_diverged_is_counted_and_told() -> None:
    early = {"test_accuracy": [0.1, 0.5], "settings": {"lr": 0.002}, "diverged": True}
    found = finding(Accuracy(ZO), [run(ZO, 0, [0.8, 0.9, 0.9]), run(ZO, 1, [], metrics=early)])
    assert found.ours == pytest.approx(70.0)
    told = numbers(found.reason)
    assert (told[:2], told[-4:]) == ([1, 3], [0, 1, 1, 2])  # epochs; seeds, 1 of 2 diverged


CLOUDS = {"dataset": "modelnet40", "precision": "fp32", "method": "full_zo"}


def on_clouds(seed: int, *, epochs: int, end: float, point: dict[str, Any] = CLOUDS) -> Record:
    """A run whose accuracy climbs straight from 0 to ``end`` in 200 epochs, stopped earlier."""
    metrics = {
        "test_accuracy": [end * epoch / 200 for epoch in range(epochs + 1)],
        "test_loss": [1.0] * (epochs + 1),
        "train_loss": [1.0] * (epochs + 1),
        "seconds": [1.0] * epochs,
        "diverged": False,
        "settings": {"lr": 0.1, "points": 1024, "epochs": epochs},
    }
    return run(point, seed, [], metrics=metrics)


def test_a_long_run_on_clouds_also_shows_the_shorter_ones() -> None:
    found = finding(Accuracy(CLOUDS), [on_clouds(0, epochs=200, end=0.4)])
    assert found.ours == pytest.approx(40)
    assert found.others == pytest.approx({"100 epochs": 20, "50 epochs": 10})
    assert found.plausible == pytest.approx((10, 40))


def test_seeds_are_compared_at_the_number_of_epochs_that_most_of_them_reached() -> None:
    records = [
        on_clouds(0, epochs=200, end=0.40),
        on_clouds(1, epochs=50, end=0.44),
        on_clouds(2, epochs=100, end=0.48),
    ]
    found = finding(Accuracy(CLOUDS), records)
    assert (found.ours, found.n_seeds) == (pytest.approx(11), 3)
    assert found.prediction == pytest.approx(4.302653 * 1 * (1 + 1 / 3) ** 0.5)
    assert found.others == pytest.approx({"100 epochs": 22, "200 epochs": 40})


def test_a_gap_on_clouds_takes_the_length_with_the_most_seeds_in_common() -> None:
    other = {**CLOUDS, "method": "cls1"}
    ends = ((CLOUDS, 0.4), (other, 0.8))
    records = [on_clouds(0, epochs=200, end=end, point=point) for point, end in ends]
    records += [
        on_clouds(s, epochs=50, end=end, point=point) for point, end in ends for s in (1, 2)
    ]
    found = finding(Gaps(((CLOUDS, other),)), records)
    assert (found.ours, found.n_seeds) == (pytest.approx(20 - 10), 3)


def test_a_gap_on_clouds_compares_equal_numbers_of_epochs() -> None:
    other = {**CLOUDS, "method": "cls1"}
    records = [on_clouds(0, epochs=200, end=0.4), on_clouds(0, epochs=50, end=0.8, point=other)]
    found = finding(Gaps(((CLOUDS, other),)), records)
    assert found.ours == pytest.approx(20 - 10)


def test_cut_runs_on_clouds_are_no_evidence_for_other_settings() -> None:
    few_points = on_clouds(0, epochs=50, end=0.8)
    few_points.metrics["settings"]["points"] = 256
    cut = [on_clouds(0, epochs=12, end=0.8), few_points]
    assert plausible_ranges(cut) == {}
    early = on_clouds(1, epochs=50, end=0.9)
    early.metrics.update(test_accuracy=[], diverged=True)  # it has no accuracy
    found = plausible_ranges([*cut, early, on_clouds(0, epochs=50, end=0.4)])
    assert found["B-T1-modelnet40-fp32-full_zo"] == pytest.approx((10, 10))


def test_two_number_formats_are_subtracted_across_seeds() -> None:
    """One seed gives both formats the same noise, which the paper's two programs did not share."""
    low, high = {**ZO, "precision": "int8_star"}, {**ZO, "precision": "int8"}
    shared = (0.80, 0.70, 0.90)
    records = [
        run(point, seed, [value + (0.01 if point is high else 0)])
        for point in (low, high)
        for seed, value in enumerate(shared)
    ]
    found = finding(Gaps(((low, high),)), records)
    assert found.ours == pytest.approx(1.0)
    assert found.interval == pytest.approx(estimate([11.0, -19.0, 11.0]).interval)


def test_the_order_of_rotated_accuracies_includes_the_choice_of_the_images() -> None:
    low, high = ({**ZO, "angle": 30, "method": method} for method in ("full_zo", "cls2"))
    ends = {0: (0.80, 0.90), 1: (0.80, 0.92), 2: (0.80, 0.88)}
    records = [
        run(point, seed, [pair[side]])
        for seed, pair in ends.items()
        for side, point in enumerate((low, high))
    ]
    found = finding(order(low, high), records)
    seeds = estimate([10.0, 12.0, 8.0]).interval
    images = 1.96 * 100 * math.sqrt(one_sample(0.8) + one_sample(0.9))
    assert found.interval == pytest.approx(math.hypot(seeds, images), rel=1e-4)


def test_the_images_widen_the_interval_of_the_best_epochs_by_their_own_accuracy() -> None:
    rotated = {**ZO, "angle": 30}
    found = finding(Accuracy(rotated), [run(rotated, seed, [0.95, 0.60]) for seed in range(2)])
    for width, share in ((found.prediction, 0.60), (found.best_prediction, 0.95)):
        images = 100 * stats.norm.ppf(0.975) * (2 * one_sample(share)) ** 0.5
        assert width == pytest.approx(images, rel=1e-3)


def test_the_least_certain_gap_is_so_with_the_choice_of_the_images() -> None:
    """By its seeds alone the first gap is less certain: 2.0 +- 0.6 against 2.5 +- 0.25."""
    low, middle, high = (
        {**ZO, "angle": 30, "method": method} for method in ("full_zo", "cls2", "cls1")
    )
    records = [
        *seeds(low, 0.975, 0.975, 0.975),
        *seeds(middle, 0.9925, 0.995, 0.9975),
    ]
    other = [
        *seeds({**high, "method": "none"}, 0.50, 0.50, 0.50),
        *seeds(high, 0.524, 0.525, 0.526),
    ]
    pairs = ((low, middle), ({**high, "method": "none"}, high))
    found = finding(Gaps(pairs, "least certain"), [*records, *other])
    assert found.ours == pytest.approx(2.5)


def test_independent_errors_have_the_variance_of_a_difference_and_common_ones_a_smaller() -> None:
    generator = np.random.default_rng(0)
    expected = sampling_variance([80.0, 85.0], {**ZO, "angle": 30})
    for shared, least, most in ((0.0, 0.85, 1.15), (0.8, 0.0, 0.5)):
        differences = []
        for _ in range(1000):
            common, *own = generator.random((3, 10_000))
            by_common = generator.random(10_000) < shared
            right = [
                np.where(by_common, common, one) < p
                for one, p in zip(own, (0.80, 0.85), strict=True)
            ]
            drawn = generator.choice(10_000, 1024, replace=False)
            low, high = (one[drawn].mean() - one.mean() for one in right)
            differences.append(100 * (high - low))
        assert least * expected < statistics.variance(differences) < most * expected


def test_only_the_published_profile_of_one_engine_makes_the_range() -> None:
    def other(end: float, engine: str, profile: str = "paper", **point: Any) -> Record:
        settings = {"lr": 0.002, "epochs": 100}
        metrics = {"test_accuracy": [0.1, end], "settings": settings, "trained": {"engine": engine}}
        made = run({**ZO, "r_max": 3, **point}, 0, [], metrics=metrics, profile=profile)
        return msgspec.structs.replace(made, artifact="elasticzo_discrepancies")

    counted = [other(0.8, "native"), msgspec.structs.replace(other(0.82, "native"), seed=1)]
    lower = [other(0.2, "torch"), other(0.3, "native", "quick", r_max=7)]
    ruled_out = other(0.1, "native", images="first")
    found = plausible_ranges([*counted, *lower, ruled_out])
    assert found["B-T1-mnist-fp32-full_zo"] == pytest.approx((81, 81))
    assert plausible_ranges([other(0.3, "native", "quick")]) == {}  # though it is the highest


def test_gaps_of_other_settings_are_between_runs_of_one_network_on_the_same_images() -> None:
    rotated = {"dataset": "mnist", "angle": 45, "precision": "fp32"}

    def other(method: str, end: float, **settings: Any) -> Record:
        made = run({**rotated, "method": method, **settings}, 0, [end])
        return msgspec.structs.replace(made, artifact="elasticzo_discrepancies")

    records = [
        other("none", 0.5, images="all", start_lr=1e-3),
        other("none", 0.4, images="all", start_lr=3e-3),
        other("cls2", 0.8, images="all", start_lr=1e-3),
        other("cls2", 0.6, images="all", start_lr=3e-3),
        other("none", 0.1, batch=64),  # on the usual images: it belongs to Table 2 itself
        other("cls2", 0.9, batch=64),
    ]
    assert plausible_ranges(records)["B-T2-mnist-45-fp32-cls2-gain"] == pytest.approx((20, 30))


def test_the_range_of_an_order_is_that_of_its_smallest_gap() -> None:
    rotated = {"dataset": "mnist", "angle": 45, "precision": "fp32"}
    ends = {"none": (0.4, 0.5), "full_zo": (0.7, 0.8), "cls2": (0.8, 0.8), "cls1": (0.7, 0.9)}
    tried = [
        msgspec.structs.replace(
            run({**rotated, "method": method, "images": "all", "start_lr": rate}, 0, [end]),
            artifact="elasticzo_discrepancies",
        )
        for method, of in ends.items()
        for rate, end in zip((1e-3, 3e-3), of, strict=True)
    ]
    order_id = "B-T2-mnist-45-fp32-order"
    assert order_id not in plausible_ranges(tried)  # one of its gaps was not tried
    point = {**tried[0].point, "method": "full_bp"}
    metrics = {**tried[0].metrics, "test_accuracy": [0.1, 0.95]}
    best = msgspec.structs.replace(tried[0], point=point, metrics=metrics)
    # the gaps range from 30 to 30, 0 to 10, -10 to 10 and 25 to 25 points
    assert plausible_ranges([*tried, best])[order_id] == pytest.approx((-10, 10))


def test_one_run_is_not_decidable_if_its_length_decides() -> None:
    claim = CLAIMS["B-T1-modelnet40-fp32-full_zo"]
    assert claim.published == 32.05
    around = finding(Accuracy(CLOUDS), [on_clouds(0, epochs=200, end=0.5)])
    above = finding(Accuracy(CLOUDS), [on_clouds(0, epochs=50, end=3.6)])
    assert verdict(claim, around) == "not decidable"
    assert verdict(claim, above) == "undecided"


def diverged(point: dict[str, Any], seed: int, accuracy: Sequence[float]) -> Record:
    metrics = {"test_accuracy": accuracy, "settings": {"lr": 0.002}, "diverged": True}
    return run(point, seed, [], metrics=metrics)


def test_in_a_gap_only_seeds_and_cells_that_were_used_are_counted() -> None:
    records = [
        *(run(ZO, seed, [0.8]) for seed in (0, 1)),
        diverged(CLS2, 0, [0.1, 0.82]),  # in both gaps, but one seed
        run(CLS2, 1, [0.82]),
        diverged(CLS2, 2, [0.1, 0.3]),  # the other side has no such seed
        diverged(BP, 0, [0.1, 0.99]),  # not in the gap that counts
        run(BP, 1, [0.99]),
    ]
    assert numbers(finding(order(ZO, CLS2, BP), records).reason)[-2:] == [1, 2]
    both = finding(order(CLS2, BP), records)
    assert numbers(both.reason)[-2:] == [1, 2]  # the same seed on both sides


def test_a_seed_left_out_on_both_sides_is_counted_once() -> None:
    older = {"test_accuracy": [0.1, 0.5], "settings": {"lr": 0.1}}
    records = [
        run(point, seed, [0.8], **changes)
        for point in (ZO, CLS2)
        for seed, changes in ((0, {"utc": "2026-01-03T00:00:00Z"}), (1, {"metrics": older}))
    ]
    reason = finding(Gaps(((ZO, CLS2),)), records).reason
    assert numbers(reason) == [0, 1]  # the seed that is used, and how many were left out


def test_a_seed_that_diverged_before_its_first_evaluation_has_no_accuracy() -> None:
    found = finding(Accuracy(ZO), [run(ZO, 0, [0.8]), diverged(ZO, 1, [])])
    assert found.ours == pytest.approx(80.0)
    assert found.n_seeds == 1
    told = numbers(found.reason)
    assert (told[:2], told[-2:]) == ([0, 1], [1, 2])  # epochs; 1 of 2 diverged
    none = finding(Accuracy(ZO), [diverged(ZO, 1, [])])
    assert (none.ours, numbers(none.reason)) == (None, [1, 1])
