"""Which runs the ElasticZO artifacts make of their configuration, and what they record."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro.artifacts import (
    elasticzo_fig2,
    elasticzo_fig3,
    elasticzo_int8_ablation,
    elasticzo_int8_sign,
    elasticzo_search,
    elasticzo_sparsity,
    elasticzo_table1,
    elasticzo_table2,
)
from repro.artifacts.base import Result
from repro.claims.elasticzo import CLAIMS, QUANTITIES
from repro.claims.quantity import Accuracy
from repro.core.errors import UsageError
from repro.execution.local import LocalExecutor
from repro.harness import is_of_profile
from repro.measurement.environment import capture
from repro.measurement.prior_results import PriorResults
from repro.ondevice.build import EngineError
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun

ARTIFACTS = (
    elasticzo_search,
    elasticzo_table1,
    elasticzo_table2,
    elasticzo_fig2,
    elasticzo_fig3,
    elasticzo_sparsity,
    elasticzo_int8_sign,
    elasticzo_int8_ablation,
)
CURVES = {
    "test_accuracy": [0.1, 0.8],
    "test_loss": [2.3, 0.6],
    "train_loss": [2.3, 0.5],
    "seconds": [1.0],
    "diverged": False,
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[NetworkRun]:
    """The cells that an artifact has run, with curves that nobody trained."""
    seen: list[NetworkRun] = []

    def run(cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, Any]]:
        for cell in cells:
            seen.append(cell)
            yield cell, dict(CURVES)

    monkeypatch.setattr(Context, "executor", SimpleNamespace(run=run))
    return seen


class Context:
    """What a run needs of its context, as nothing is trained."""

    environment = None
    workers = 1
    prior_results = PriorResults()
    executor: Any = LocalExecutor(capture(), workers=1)


def results(module: Any, config: Any) -> list[Result]:
    return list(module.ARTIFACT.run(config, Context()))


def test_table_1_has_the_published_cells(ran: list[NetworkRun]) -> None:
    points = [result.point for result in results(elasticzo_table1, elasticzo_table1.PAPER)]
    counted = Counter((p["dataset"], p["precision"]) for p in points)
    assert counted == {
        ("mnist", "fp32"): 20, ("mnist", "int8"): 20, ("mnist", "int8_star"): 15,
        ("fashion_mnist", "fp32"): 20, ("fashion_mnist", "int8"): 20,
        ("fashion_mnist", "int8_star"): 15,
        ("modelnet40", "fp32"): 20,
    }  # fmt: skip
    assert {cell.epochs for cell in ran if cell.task != "modelnet40"} == {100}
    assert {cell.settings.batch for cell in ran if cell.precision == "fp32"} == {32}
    assert {cell.settings.batch for cell in ran if cell.precision != "fp32"} == {256}


@pytest.mark.parametrize("module", ARTIFACTS, ids=lambda module: module.ARTIFACT.slug)
@pytest.mark.usefixtures("engine")
def test_the_engine_trains_what_it_can_and_changes_nothing_else(
    module: Any, ran: list[NetworkRun]
) -> None:
    config = module.ARTIFACT.profiles["smoke"]
    results(module, config)
    by_torch = [*ran]
    ran.clear()
    results(module, replace(config, engine="auto"))
    assert {cell.engine for cell in by_torch} == {"torch"}
    assert [replace(cell, engine="torch") for cell in ran if not cell.start] == [
        cell for cell in by_torch if not cell.start
    ]
    for cell in ran:
        assert (cell.engine == "native") == (not cell.why_not_native())
    assert "native" in {cell.engine for cell in ran}


@pytest.mark.usefixtures("engine")
def test_pre_training_is_the_engine_s_but_for_adam(ran: list[NetworkRun]) -> None:
    results(elasticzo_table2, replace(elasticzo_table2.PAPER, engine="native"))
    engines = {(cell.precision, cell.engine, cell.start and cell.start.engine) for cell in ran}
    assert engines == {("fp32", "native", "torch"), ("int8", "native", "native")}


@pytest.mark.usefixtures("engine")
def test_what_the_engine_cannot_train_is_refused_before_anything_runs(
    ran: list[NetworkRun],
) -> None:
    with pytest.raises(UsageError, match=r"mnist int8 .* no shift policy v1.*--engine auto"):
        results(elasticzo_int8_ablation, replace(elasticzo_int8_ablation.PAPER, engine="native"))
    assert ran == []


@pytest.mark.usefixtures("engine")
def test_the_engine_can_train_all_of_table_1(ran: list[NetworkRun]) -> None:
    results(elasticzo_table1, replace(elasticzo_table1.PAPER, engine="native"))
    assert {(cell.engine, cell.task == "modelnet40") for cell in ran} == {
        ("native", False),
        ("native", True),
    }


def test_an_engine_that_is_not_built_is_missed_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "repro.ondevice._engine", raising=False)
    for engine in ("native", "auto"):
        config = replace(elasticzo_fig3.ARTIFACT.profiles["smoke"], engine=engine)
        with pytest.raises(EngineError, match="run `repro engine build`"):
            results(elasticzo_fig3, config)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("module", "claims"),
    [(elasticzo_table1, "elasticzo_table1"), (elasticzo_table2, "elasticzo_table2")],
)
@pytest.mark.usefixtures("ran")
def test_every_published_accuracy_has_its_runs(module: Any, claims: str) -> None:
    points = [dict(result.point) for result in results(module, module.ARTIFACT.profiles["paper"])]
    wanted = [
        dict(quantity.point)
        for claim in CLAIMS
        if claim.artifact == claims and isinstance(quantity := QUANTITIES.get(claim.id), Accuracy)
    ]
    assert len(wanted) >= 22
    assert [point for point in wanted if point not in points] == []


def test_stand_in_is_named_as_what_it_is(ran: list[NetworkRun]) -> None:
    for stand_in in ("shapes40", "shrec11", "modelnet40_hdf5"):
        config = replace(elasticzo_table1.QUICK, datasets=(stand_in,))
        made = results(elasticzo_table1, config)
        assert {result.point["dataset"] for result in made} == {stand_in}
    assert {(cell.train_items, cell.points) for cell in ran} == {(2048, 128)}


def test_no_name_means_whatever_is_in_the_cache() -> None:
    with pytest.raises(UsageError, match=r"'clouds': must be one of mnist, .*, modelnet40_points"):
        replace(elasticzo_table1.QUICK, datasets=("clouds",))


@pytest.mark.usefixtures("ran")
def test_another_form_of_modelnet40_answers_the_paper_s_claims_and_is_named() -> None:
    config = replace(elasticzo_table1.PAPER, datasets=("modelnet40_points",))
    made = results(elasticzo_table1, config)
    assert {result.point["dataset"] for result in made} == {"modelnet40"}
    assert {result.metrics["settings"]["problem"] for result in made} == {"modelnet40_points"}
    for profile in ("paper", "hours", "quick"):
        own = replace(elasticzo_table1.ARTIFACT.profiles[profile], datasets=("modelnet40_points",))
        assert is_of_profile(elasticzo_table1.ARTIFACT, profile, own)


def test_only_clouds_are_augmented_and_only_if_asked_for(ran: list[NetworkRun]) -> None:
    config = replace(elasticzo_table1.PAPER, datasets=("mnist", "modelnet40_points"))
    plain = results(elasticzo_table1, config)
    assert {cell.augmentation for cell in ran} == {"none"}
    assert "augmentation" not in plain[-1].metrics["settings"]  # like records from before
    ran.clear()
    changed = results(elasticzo_table1, replace(config, cloud_augmentation="pointnet"))
    assert {(cell.task, cell.augmentation) for cell in ran} == {
        ("mnist", "none"),
        ("modelnet40_points", "pointnet"),
    }
    assert changed[-1].metrics["settings"]["augmentation"] == "pointnet"


@pytest.mark.parametrize(
    ("dataset", "command"),
    [
        ("modelnet40", "repro data fetch modelnet40 --accept-terms"),
        ("modelnet40_points", "repro data fetch modelnet40_points --mirror DIR --accept-terms"),
        ("shrec11", "repro data fetch shrec11 --mirror DIR"),
    ],
)
def test_absent_data_are_refused_before_anything_runs(
    dataset: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("REPRO_DATA_MIRROR", raising=False)
    config = replace(elasticzo_table1.SMOKE, datasets=(dataset,))
    with pytest.raises(UsageError, match=rf"{dataset} is not in the cache; run: {command}"):
        results(elasticzo_table1, config)


def test_fig_2_shares_its_runs_with_table_1(ran: list[NetworkRun]) -> None:
    results(elasticzo_fig2, elasticzo_fig2.ARTIFACT.profiles["paper"])
    of_figure = set(ran)
    ran.clear()
    results(elasticzo_table1, elasticzo_table1.PAPER)
    assert of_figure <= set(ran)


def test_fine_tuning_starts_from_pre_training_of_its_own_seed_and_precision(
    ran: list[NetworkRun],
) -> None:
    made = results(elasticzo_table2, elasticzo_table2.PAPER)
    for cell in ran:
        assert cell.start is not None
        assert cell.start.seed == cell.seed
        assert cell.task.startswith(f"rotated_{cell.start.task}_")
        assert cell.start.method == "full_bp"
        if cell.precision == "fp32":
            assert cell.start.epochs == 1
            assert isinstance(cell.start.settings, FloatSettings)
            assert cell.start.settings.rule == "adam"
        else:
            assert (cell.start.precision, cell.start.epochs) == ("int8", 100)
    untuned = [result for result in made if result.point["method"] == "none"]
    assert len(untuned) == 2 * 2 * 2 * 5  # data sets, angles, precisions, seeds
    assert all(result.metrics["test_accuracy"] == [0.1] for result in untuned)


def test_runs_of_one_point_have_equal_settings_whatever_their_seed(ran: list[NetworkRun]) -> None:
    made = results(elasticzo_table2, elasticzo_table2.QUICK)
    settings: dict[str, Any] = {}
    for result in made:
        settings.setdefault(str(result.point), result.metrics["settings"])
        assert settings[str(result.point)] == result.metrics["settings"]
        assert "seed" not in str(result.metrics["settings"])
    assert ran[0].seed != ran[1].seed


def test_the_search_never_evaluates_on_test_items(ran: list[NetworkRun]) -> None:
    results(elasticzo_search, elasticzo_search.PAPER)
    assert {cell.evaluation for cell in ran} == {"validation"}
    assert {cell.task for cell in ran} == set(elasticzo_search.PAPER.problems)


def test_the_search_tries_every_batch_of_fine_tuning_in_integers(ran: list[NetworkRun]) -> None:
    made = replace(
        elasticzo_search.QUICK,
        problems=("mnist", "rotated_mnist_30"),
        precisions=("int8",),
        methods=("cls1", "full_bp"),
        r_maxes=(7, 15),
        integer_tuning_batches=(32, 256),
    )
    points = [result.point for result in results(elasticzo_search, made)]
    assert [(p["method"], p.get("r_max"), p.get("batch")) for p in points if "angle" not in p] == [
        ("cls1", 7, None), ("cls1", 15, None),
    ]  # fmt: skip
    tuned = [(cell.method, cell.settings.batch) for cell in ran if cell.start]
    assert tuned == [
        ("cls1", 32), ("cls1", 32), ("cls1", 256), ("cls1", 256), ("full_bp", 32), ("full_bp", 256),
    ]  # fmt: skip
    assert all(cell.start.settings.batch == 256 for cell in ran if cell.start)
    assert len({str(point) for point in points}) == len(points)


@pytest.mark.usefixtures("ran")
def test_int8_star_is_searched_for_where_a_table_has_it() -> None:
    made = replace(
        elasticzo_search.QUICK,
        problems=("mnist", "rotated_mnist_30"),
        precisions=("int8_star",),
        methods=("cls2", "full_bp"),
        r_maxes=(7, 15),
    )
    points = [result.point for result in results(elasticzo_search, made)]
    assert [(p["method"], p["precision"], p["r_max"], "angle" in p) for p in points] == [
        ("cls2", "int8_star", 7, False), ("cls2", "int8_star", 15, False),
    ]  # fmt: skip


def test_the_search_tries_other_epsilons_at_the_best_of_each_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = {"rotated_mnist_30": 0.6, "rotated_mnist_45": 0.6, "mnist": 0.3}  # by lr x clip

    def run(cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, Any]]:
        for cell in cells:
            settings: Any = cell.settings
            accuracy = 1 - abs(settings.lr * settings.clip - best[cell.task])
            yield cell, CURVES | {"test_accuracy": [0.1, accuracy]}

    monkeypatch.setattr(Context, "executor", SimpleNamespace(run=run))
    made = replace(
        elasticzo_search.QUICK,
        problems=tuple(best),
        precisions=("fp32",),
        methods=("cls1",),
        learning_rates=(1.0, 2.0),
        clips=(0.3, 0.2),
        other_eps=(0.5,),
    )
    points = [result.point for result in results(elasticzo_search, made)]
    line = [point for point in points if point["eps"] == 0.5]
    assert len(points) == 3 * 4 + len(line)
    assert [(p["dataset"], p.get("angle"), p["lr"], p["clip"]) for p in line] == [
        ("mnist", 30, 2.0, 0.3),
        ("mnist", 45, 2.0, 0.3),
        ("mnist", None, 1.0, 0.3),
    ]


def test_the_epsilon_of_the_grid_is_not_tried_twice() -> None:
    with pytest.raises(UsageError, match=r"other_eps.*0\.01"):
        replace(elasticzo_search.QUICK, other_eps=(1e-2,))


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            elasticzo_search.QUICK,
            {"r_maxes": (15, 1)},
            "r_maxes = 1: must be a whole .* from 2",
        ),
        (elasticzo_search.QUICK, {"integer_tuning_batches": (0,)}, "integer_tuning_batches = 0"),
        (elasticzo_search.QUICK, {"cloud_points": 1025}, "cloud_points = 1025: the clouds have"),
        (elasticzo_table1.QUICK, {"cloud_points": 1025}, "cloud_points = 1025: the clouds have"),
        (elasticzo_sparsity.QUICK, {"p_zero": 1 - 1e-9}, "p_zero = 0.99"),
    ],
)
def test_settings_that_would_fail_after_hours_are_refused_before(
    config: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        replace(config, **changes)


@pytest.mark.usefixtures("ran")
def test_ablation_tells_the_arm_with_the_schedule_from_the_other() -> None:
    points = [r.point for r in results(elasticzo_sparsity, elasticzo_sparsity.PAPER)]
    wanted = [
        dict(quantity.point)
        for claim in CLAIMS
        if claim.artifact == "elasticzo_sparsity"
        and isinstance(quantity := QUANTITIES[claim.id], Accuracy)
    ]
    assert len(wanted) == 2
    assert all(point in points for point in wanted)
    assert {point["p_zero"] for point in points} == {0.33, None}


def test_scheduled_arm_is_the_run_of_table_1(ran: list[NetworkRun]) -> None:
    results(elasticzo_table1, elasticzo_table1.PAPER)
    of_table = set(ran)
    ran.clear()
    results(elasticzo_sparsity, elasticzo_sparsity.PAPER)
    assert len(set(ran) & of_table) == len(ran) / 2


def test_signs_are_counted_in_runs_of_their_own(ran: list[NetworkRun]) -> None:
    results(elasticzo_int8_sign, elasticzo_int8_sign.PAPER)
    assert all(cell.signs and cell.precision == "int8_star" for cell in ran)
    own = [
        cell
        for cell in ran
        if cell.settings.r_max == tuned_hyperparameters(cell.task, "int8", cell.method).r_max
    ]
    assert len(own) == 2 * 3 * 6 * 5  # data sets, methods, batch sizes, seeds
    assert {cell.settings.r_max for cell in ran if cell not in own} == {31, 63}
    assert len(set(ran)) == len(ran)
    assert {cell.settings.batch for cell in ran} == {32, 64, 128, 256, 512, 1024}


def test_other_answers_are_given_one_at_a_time(ran: list[NetworkRun]) -> None:
    results(elasticzo_int8_ablation, elasticzo_int8_ablation.QUICK)
    found = []
    for cell in ran:
        assert isinstance(cell.settings, IntegerSettings)
        used = cell.settings
        answers = (cell.precision, used.restore, used.shift_policy, used.activations, used.sign)
        found.append((cell.method, *answers))
    wanted = {
        ("int8", "clip", "v2", "plus", None): ("full_zo", "cls2", "cls1", "full_bp"),
        ("int8", "exact", "v2", "plus", None): ("full_zo", "cls1"),
        ("int8", "clip", "v1", "plus", None): ("full_zo", "cls1", "full_bp"),
        ("int8", "clip", "v2", "minus", None): ("cls2", "cls1"),
        ("int8_star", "clip", "v2", "plus", None): ("full_zo", "cls2", "cls1"),
        ("int8_star", "clip", "v2", "plus", "exact"): ("full_zo", "cls2", "cls1"),
    }
    assert sorted(found, key=str) == sorted(
        ((method, *answers) for answers, methods in wanted.items() for method in methods), key=str
    )


def test_runs_by_the_defaults_and_in_int8s_are_those_of_table_1(ran: list[NetworkRun]) -> None:
    results(elasticzo_table1, elasticzo_table1.QUICK)
    of_table = set(ran)
    ran.clear()
    results(elasticzo_int8_ablation, elasticzo_int8_ablation.QUICK)
    assert len(set(ran) & of_table) == 4 + 3
