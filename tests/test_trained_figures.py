"""What figures and tables of cells show of seeds that are no ordinary part of a mean."""

from collections.abc import Sequence
from typing import Any

import pytest
from matplotlib.axes import Axes

from made_up import made
from reading import numbers
from repro.artifacts.elasticzo_int8_sign import batches, by_phase, signs
from repro.artifacts.elasticzo_int8_sign import findings as sign_findings
from repro.artifacts.elasticzo_sparsity import sparsity
from repro.artifacts.shared import losses, scores
from repro.measurement.records import Record

OLDER = "2026-01-01T00:00:00Z"


def run(
    accuracy: Sequence[float], *, seed: int = 0, utc: str = "2026-01-02T03:04:05Z",
    profile: str = "paper", diverged: bool = False, settings: Any = None,
    signs: Sequence[int] = (), engine: str = "", **point: Any,
) -> Record:  # fmt: skip
    where = {"dataset": "mnist", "precision": "fp32", "method": "full_zo"} | point
    trained = {"epochs": 3, "batch": 32, "lr": 0.1, "clip": 0.3, "eps": 0.01} | (settings or {})
    metrics = {
        "test_accuracy": list(accuracy),
        "test_loss": [1 - a for a in accuracy],
        "train_loss": [1 - a for a in accuracy],
        "seconds": [1.0] * max(len(accuracy) - 1, 0),
        "diverged": diverged,
        "settings": trained,
        "signs": [
            {"steps": 10, "integer_is_float": right, "exact_is_float": right,
             "integer_is_exact": right, "integer_is_zero": 0}
            for right in signs
        ],
    }  # fmt: skip
    if engine:
        metrics["trained"] = {"engine": engine}
    return made(where, metrics, profile=profile, seed=seed, utc=utc)


def remarks(panel: Axes) -> list[str]:
    legend = panel.get_legend()
    return [text.get_text() for text in legend.texts] if legend else []


CUT = [
    run([0.1, 0.8, 0.9, 0.9]),
    run([0.1, 0.7], seed=1, diverged=True),
    run([0.1, 0.2, 0.2, 0.2], seed=2, settings={"lr": 9.0}, utc=OLDER),
    run([0.1, 0.9, 0.9, 0.9], method="full_bp", profile="quick"),
    run([0.1, 0.5], dataset="fashion_mnist", profile="quick"),
]


def test_loss_figure_means_only_seeds_trained_alike_and_names_profiles_by_panel() -> None:
    figure = losses.figure(CUT)
    mnist, fashion, *_ = figure.axes
    assert list(mnist.lines[0].get_ydata()) == pytest.approx([0.9, 0.25])
    assert remarks(mnist) == [
        "Full ZO: 1 of 2 diverged, 1 left out: other settings",
        "Full BP: quick",
    ]
    assert mnist.get_title(loc="left") == "MNIST, FP32, train"
    assert fashion.get_title(loc="left") == "Fashion-MNIST, FP32, train (quick)"


def test_loss_table_marks_what_diverged_and_what_is_left_out() -> None:
    table = losses.table([*CUT, run([], seed=3, diverged=True)])
    zo = table[(table["method"] == "Full ZO") & table[""].str.startswith("MNIST")]
    assert list(zo["seed"]) == [0, 1, 3, 2]
    assert list(zo["epochs"]) == [3, 1, 0, 3]
    assert list(zo["note"]) == ["", "diverged", "diverged", "left out: other settings"]
    assert list(zo["test accuracy (%)"]) == [90.0, 70.0, "", 20.0]


def test_runs_of_a_table_show_what_was_done_and_used() -> None:
    start = {"start": {"epochs": 100}}
    tuned = run([0.1, 0.5], dataset="fashion_mnist", angle=30, settings=start)
    table = scores.runs([*CUT, tuned, run([0.1], method="none")])
    zo = table.loc["MNIST, FP32, Full ZO"]
    assert (zo["epochs"], zo["seeds"], zo["lr"], zo["clip"]) == ("1 to 3", "0, 1", 0.1, 0.3)
    assert zo["note"] == "1 of 2 diverged, 1 left out: other settings"
    assert (zo["profile"], table.loc["MNIST, FP32, Full BP", "profile"]) == ("paper", "quick")
    bp = table.loc["MNIST, FP32, Full BP"]
    assert (bp["lr"], bp["clip"], bp["eps"]) == (0.1, "", "")
    assert table.loc["Fashion-MNIST, 30°, FP32, Full ZO", "pre-training epochs"] == 100
    assert len(table) == 4
    assert "engine" not in table


def test_runs_of_a_table_name_the_engines_where_one_is_not_pytorch() -> None:
    both = [run([0.1, 0.8], engine="native"), run([0.1, 0.7], seed=1, engine="torch")]
    table = scores.runs([*both, *CUT[3:]])
    engines = table.filter(like="MNIST, FP32, Full ZO", axis=0)["engine"].iloc[:2]
    assert set(engines) == {"native", "torch"}  # each has a row of its own
    assert table.loc["MNIST, FP32, Full BP", "engine"] == "torch"  # it does not say
    assert "engine" not in scores.runs([both[1], *CUT[3:]])


def test_runs_of_a_table_name_the_form_of_modelnet40_and_augmentation() -> None:
    points = {"problem": "modelnet40_points", "augmentation": "pointnet"}
    records = [run([0.1, 0.4], dataset="modelnet40", settings=points), *CUT[3:]]
    table = scores.runs(records)
    row = table.loc["ModelNet40, FP32, Full ZO"]
    assert (row["data set"], row["augmentation"]) == ("modelnet40_points", "pointnet")
    assert table.loc["MNIST, FP32, Full BP", "data set"] == ""
    meshes = run([0.1, 0.4], dataset="modelnet40", settings={"problem": "modelnet40"})
    assert not {"data set", "augmentation"} & {*scores.runs([meshes, *CUT[3:]])}


def test_accuracies_carry_what_their_mean_does_not_show() -> None:
    columns = scores.columns([*CUT, run([], method="cls1", diverged=True)])
    by_method = {score.method: score for score in columns["MNIST", "FP32"]}
    zo = by_method["Full ZO"]
    assert (zo.last, zo.caveat) == (pytest.approx(80.0), CAVEAT)
    cls1 = by_method["ZO-Feat-Cls1"]
    assert (cls1.last, cls1.published, cls1.caveat) == (None, 97.53, "1 of 1 diverged")
    assert by_method["Full BP"].caveat == ""


CAVEAT = "1 of 2 diverged, 1 left out: other settings"


def test_sparsity_figure_names_what_is_special_in_each_panel() -> None:
    records = [
        run([0.1, 0.8, 0.9], p_zero=None),
        run([0.1, 0.6, 0.8], p_zero=None, seed=1),
        run([0.1, 0.6, 0.7], p_zero=0.33),
        run([0.1, 0.1, 0.1], p_zero=0.33, seed=1, settings={"lr": 9.0}, utc=OLDER),
        run([0.1, 0.5], p_zero=None, dataset="fashion_mnist", profile="quick"),
        run([0.1, 0.5], p_zero=0.33, dataset="fashion_mnist"),
        run([0.1, 0.5], p_zero=0.5, dataset="fashion_mnist"),
    ]
    figure = sparsity(records)
    mnist, fashion = figure.axes
    scheduled, fixed, paper_scheduled, paper_fixed = mnist.lines
    assert list(fixed.get_ydata()) == pytest.approx([10, 60, 70])
    printed = [line.get_ydata()[0] for line in (paper_scheduled, paper_fixed)]
    assert printed == [89.78, 80.26]  # in Table 1; in section 5.2
    assert paper_scheduled.get_color() == scheduled.get_color() != fixed.get_color()
    band = mnist.collections[0].get_paths()[0].vertices
    assert {round(y) for x, y in band if x == 2} == {80, 90}
    arms = [text.get_text() for text in figure.legends[0].texts[:2]]
    assert len(fashion.lines) == 3 + 2  # no accuracy is published for 0.5
    assert remarks(mnist) == [f"{arms[1]}: 1 left out: other settings"]
    assert remarks(fashion) == [f"{arms[0]}: quick"]
    assert mnist.get_title(loc="left") == "MNIST"


def test_sign_figure_ends_where_a_seed_did_and_names_profiles_by_panel() -> None:
    int8_star = {"precision": "int8_star", "batch": 256}
    records = [
        run([0.1, 0.8, 0.9], signs=(9, 10), **int8_star),
        run([0.1], seed=1, signs=(7,), diverged=True, **int8_star),
        run([0.1, 0.8], seed=2, signs=(0,), settings={"lr": 9.0}, utc=OLDER, **int8_star),
        run([0.1, 0.8], signs=(5,), method="cls1", profile="quick", **int8_star),
    ]
    figure = signs(records)
    zo, cls1 = figure.axes
    assert list(zo.lines[0].get_ydata()) == pytest.approx([80.0])
    assert zo.get_title(loc="left") == f"MNIST, Full ZO\n{CAVEAT}"
    assert cls1.get_title(loc="left") == "MNIST, ZO-Feat-Cls1 (quick)"
    (finding,) = sign_findings(records)
    assert finding.ours is None
    assert numbers(finding.reason)[:2] == [2, 6]  # of the six parts two were run


def test_sign_statement_is_the_mean_of_all_parts_and_knows_its_range() -> None:
    records = [
        run(
            [0.1, 0.8],
            seed=seed,
            signs=(right,),
            precision="int8_star",
            method=method,
            dataset=data,
            batch=256,
        )
        for data in ("mnist", "fashion_mnist")
        for method in ("full_zo", "cls2", "cls1")
        for seed, right in enumerate((9, 8, 7))
    ]
    (finding,) = sign_findings(records)
    assert finding.ours == pytest.approx(80)
    assert finding.n_seeds == 3
    assert finding.prediction == pytest.approx(4.3027 * 10 * (4 / 3) ** 0.5, rel=1e-3)
    assert finding.plausible == pytest.approx((80, 80))


def test_sign_statement_names_other_batch_sizes_and_where_95_percent_is_reached() -> None:
    def trained(
        batch: int, signs: tuple[int, ...], data: str, method: str, **others: int
    ) -> Record:
        point = {"precision": "int8_star", "method": method, "dataset": data, "batch": batch}
        settings = {"epochs": len(signs), "r_max": 15, **others}
        return run([0.1] * (len(signs) + 1), signs=signs, settings=settings, **point, **others)  # type: ignore[arg-type]

    records = [
        trained(batch, signs, data, method)
        for data in ("mnist", "fashion_mnist")
        for method in ("full_zo", "cls2", "cls1")
        for batch, signs in ((256, (8,) * 100), (32, (10, 9, 9, 9, 9, 8)), (64, (9, 9)))
    ]
    (finding,) = sign_findings(records)
    assert finding.ours == pytest.approx(80)  # by B = 256 alone
    assert finding.plausible == pytest.approx((80, 90))  # of whole runs, not of epochs
    told = numbers(finding.reason)
    assert told[:3] == [95, 6, 648]  # %, epochs that reach it, all epochs
    assert told[-5:] == [6, 90, 90, 32, 80]  # runs of one length only: epochs, range in %, B
    table = by_phase(records).set_index(["data set", "method", "B"])
    row = table.loc[("MNIST", "Full ZO", 32)]
    assert (row["all epochs"], row["epochs 1 to 20"]) == ("90.0", "")
    assert table.loc[("MNIST", "Full ZO", 256), "epochs 1 to 20"] == "80.0"
    assert (row["highest epoch"], row["epochs with 95 % or more"]) == ("100.0", 1)
    figure = batches(records)
    (line,) = [one for one in figure.axes[0].lines if one.get_label() == "Full ZO"]
    assert list(line.get_xdata()) == [32]
    assert list(line.get_ydata()) == pytest.approx([90])
    more = trained(256, (10, 9), "mnist", "cls1", r_max=63)
    (finding,) = sign_findings([*records, more])
    assert finding.ours == pytest.approx(80)  # by the r_max that was searched for
    assert finding.plausible == pytest.approx((80, 95))
    assert numbers(finding.reason)[-3:] == [95, 63, 80]
    rows = by_phase([*records, more])
    assert sorted(set(rows["r_max"])) == [15, 63]


def test_short_and_long_runs_of_one_batch_size_both_count() -> None:
    records = [
        run([0.1] * (epochs + 1), signs=(right,) * epochs, settings={"epochs": epochs},
            precision="int8_star", method=method, dataset=data, batch=256, epochs=epochs)
        for data in ("mnist", "fashion_mnist")
        for method in ("full_zo", "cls2", "cls1")
        for epochs, right in ((100, 8), (6, 9))
    ]  # fmt: skip
    (finding,) = sign_findings(records)
    assert finding.ours == pytest.approx(80)  # by the long runs
    assert numbers(finding.reason)[-5:] == [6, 90, 90, 256, 80]  # epochs, range in %, B
