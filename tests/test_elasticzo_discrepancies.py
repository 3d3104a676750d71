"""Suspected causes: one setting changed, other images, and what the pages say of both."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from made_up import made
from repro.artifacts.elasticzo_discrepancies import ARTIFACT, SMOKE, figures, tables
from repro.artifacts.elasticzo_discrepancies import run as run_module
from repro.artifacts.elasticzo_discrepancies.causes import (
    FIRST,
    OF_INTEGER_TUNING,
    SETTINGS,
    TABLE_2,
)
from repro.artifacts.elasticzo_discrepancies.evaluated import INTEGER_START, START, comparisons
from repro.artifacts.elasticzo_discrepancies.run import RotatedImages, evaluations
from repro.artifacts.shared.ablation import Ablation, Axis, change
from repro.artifacts.shared.training_runs import each_part, point_of
from repro.claims.index import CLAIMS
from repro.claims.quantity import key
from repro.claims.trained import SeedGroups
from repro.claims.verdict import INCONSISTENT
from repro.core.errors import UnknownRunsError, UsageError
from repro.data import cache
from repro.execution.schedule import RunsFailedError
from repro.measurement import environment
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import Record, read_runs
from repro.report.claims_table import ClaimRow
from repro.report.runs import current_runs
from repro.training.hyperparameters import tuned_hyperparameters
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

ROOT = Path(__file__).parents[1]
ENVIRONMENT = msgspec.structs.replace(environment.capture(), dirty=False)
ROW = {"dataset": "fashion_mnist", "angle": 30, "precision": "int8", "method": "full_zo"}
TUNED = NetworkRun(
    "rotated_mnist_30", "int8", "cls1", IntegerSettings(r_max=63), 2, 0,
    start=NetworkRun("mnist", "int8", "full_bp", IntegerSettings(), 2, 0),
)  # fmt: skip


def record(kind: str, point: dict[str, Any], metrics: dict[str, Any], seed: int = 0) -> Record:
    return made(point, metrics, kind=kind, seed=seed, environment=ENVIRONMENT)


def run(accuracy: Sequence[float], changed: dict[str, Any], seed: int = 0, **point: Any) -> Record:
    settings = {"batch": 256, "r_max": 7, **changed}
    own = {**ROW, "batch": 256, "r_max": 7, **changed, **point}
    metrics = {"test_accuracy": accuracy, "diverged": False, "settings": settings}
    return record("run", own, metrics | {"changed": changed}, seed)


def evaluation(accuracy: float, seed: int = 0, **point: Any) -> Record:
    return record("evaluation", point, {"accuracy": accuracy, "settings": {}}, seed)


def test_each_cause_is_changed_alone_and_the_tables_value_is_not_run_twice() -> None:
    found = list(
        Ablation(
            [TUNED], (Axis("r_max", "r_max", (7, 63)), Axis("sign", "precision", ("int8_star",)))
        ).runs()
    )
    assert found[0] == (TUNED, {})
    assert [changed for _, changed in found] == [{}, {"r_max": 7}, {"precision": "int8_star"}]
    assert found[1][0] == replace(TUNED, settings=IntegerSettings(r_max=7))
    assert found[2][0] == replace(TUNED, precision="int8_star")


def test_methods_without_a_tail_are_not_trained_by_other_activations() -> None:
    full_zo = replace(TUNED, method="full_zo")
    names = [{*changed} for _, changed in Ablation([full_zo], OF_INTEGER_TUNING).runs()]
    assert {"activations"} not in names
    with_a_tail = [{*changed} for _, changed in Ablation([TUNED], OF_INTEGER_TUNING).runs()]
    assert {"activations"} in with_a_tail


def test_pre_training_is_changed_in_the_run_that_a_cell_starts_from() -> None:
    made = change(TUNED, {"start_batch": 32})
    assert made == replace(TUNED, start=replace(TUNED.start, settings=IntegerSettings(batch=32)))
    assert point_of(made, SETTINGS)["start_batch"] == 32


def test_every_run_says_what_was_changed_in_it() -> None:
    class Trained:
        def run(self, cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
            assert len(set(cells)) == len(cells)
            yield from ((cell, {"batch": cell.settings.batch}) for cell in cells)

    config = replace(SMOKE, experiments=("integer_tuning", "integer_training"))
    context: Any = SimpleNamespace(executor=Trained(), prior_results=PriorResults())
    results = list(run_module.run(config, context))
    assert {result.kind for result in results} == {"run"}
    for result in results:
        settings = result.metrics["settings"]
        assert result.metrics["changed"].items() <= settings.items()
        assert result.metrics["batch"] == settings["batch"]
    tuned: dict[str, list[Any]] = {}
    for result in results:
        if "angle" in result.point:
            own = tuned_hyperparameters("rotated_mnist_30", "int8", result.point["method"]).batch
            changed = result.metrics["changed"]
            assert result.metrics["batch"] == changed.get("batch", own)
            if changed.keys() <= {"batch"}:
                tuned.setdefault(result.point["method"], []).append(changed)
    of_table = {"full_zo": 32, "cls2": 32, "cls1": 64, "full_bp": 32}
    more = {"full_zo": [1024]}  # whose other settings were changed, too
    assert tuned == {
        method: [
            {},
            *(
                {"batch": batch}
                for batch in [32, 64, 128, 256, *more.get(method, [])]
                if batch != own_batch
            ),
        ]
        for method, own_batch in of_table.items()
    }


def test_settings_of_pointnet_are_changed_for_the_methods_that_they_can_affect() -> None:
    class Trained:
        def run(self, cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
            assert {(cell.task, cell.points) for cell in cells} == {("shapes40", 8)}
            yield from ((cell, {"lr": cell.settings.lr}) for cell in cells)

    config = replace(SMOKE, experiments=("point_clouds",))
    context: Any = SimpleNamespace(executor=Trained(), prior_results=PriorResults())
    found: dict[str, list[dict[str, Any]]] = {}
    for result in run_module.run(config, context):
        changed = result.metrics["changed"]
        assert changed.items() <= result.metrics["settings"].items()
        assert changed.items() <= result.point.items()
        # records leave later settings out at the value of earlier records
        assert ("batch_norm" in result.point) == ("batch_norm" in changed)
        found.setdefault(result.point["method"], []).append(dict(changed))
    frozen = {"batch_norm": "frozen"}
    for changes in found.values():
        assert changes[:3] == [{}, frozen, {**frozen, "initial_weights": "he"}]
        assert {"lr": 0.008} in changes
    for method in ("full_zo", "cls2", "cls1"):
        # of three values, one is the method's own
        assert sum("eps" in changed for changed in found[method]) == 2
    assert not any("eps" in changed for changed in found["full_bp"])
    for method in ("full_zo", "full_bp"):
        assert {"initial_weights": "he"} in found[method]
        assert {"batch": 8} in found[method]


def test_longer_runs_of_pointnet_are_told_from_the_short_ones_and_have_no_base() -> None:
    class Trained:
        def run(self, cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
            yield from ((cell, {"length": cell.epochs}) for cell in cells)

    config = replace(SMOKE, experiments=("point_clouds", "long_point_clouds"))
    context: Any = SimpleNamespace(executor=Trained(), prior_results=PriorResults())
    results = list(run_module.run(config, context))
    assert len({key(result.point) for result in results}) == len(results)
    longer = [result for result in results if "points" in result.point]
    assert [(r.point["method"], dict(r.metrics["changed"])) for r in longer] == [
        ("full_zo", {"eps": 1e-3}),
        ("full_bp", {"lr": 0.002}),
        ("full_bp", {"lr": 0.128}),
    ]
    for result in longer:
        assert (result.point["points"], result.metrics["length"]) == (16, 2)
        assert result.metrics["settings"]["points"] == 16


def test_values_of_a_cause_stand_beside_the_tables_own() -> None:
    records = [
        run([0.2, 0.30, 0.28], {}),
        run([0.2, 0.30, 0.32], {}, seed=1),
        run([0.2, 0.40, 0.38], {"batch": 32}),
        run([0.2, 0.25, 0.26], {"r_max": 3}),
        run([0.2, 0.25, 0.27], {"r_max": 63}),
        run([0.2, 0.31, 0.29], {"precision": "int8_star"}),
        run([0.2, 0.50, 0.50], {"batch": 32}, angle=45),  # the table's own is missing
    ]
    found = {one.axis.setting: one for one in comparisons(records)}
    assert list(found) == ["r_max", "batch", "precision"]
    assert all(one.row == ROW and one.published == 37.21 for one in found.values())
    assert [(a.label, a.is_base) for a in found["r_max"].variants] == [
        ("3", False), ("7", True), ("63", False),
    ]  # fmt: skip
    assert [a.label for a in found["precision"].variants] == ["INT8", "INT8*"]
    smaller, own = found["batch"].variants
    assert (smaller.last.mean, smaller.best.mean) == (pytest.approx(38), pytest.approx(40))
    assert (own.last.mean, own.last.n_seeds) == (pytest.approx(30), 2)
    batch = tables.by_cause(records).set_index("cause").loc["batch size"]
    assert batch["accuracy by value (%)"] == "32: 38.00; 256 (table's setting): 30.00 ± 25.41"
    assert (batch["published"], batch["seeds"]) == ("37.21", "1 to 2")


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A test split of 2,000 images of noise, in place of any set."""
    generator = np.random.default_rng(0)
    content = {
        "test_images": generator.integers(0, 256, (2000, 28, 28), dtype=np.uint8),
        "test_labels": np.arange(2000) % 10,
    }
    monkeypatch.setattr(cache, "load", lambda _: content)
    return content


def test_other_images_are_the_first_ones_all_or_turned_the_other_way(numbered: Any) -> None:
    pixels = numbered["test_images"]
    first, labels = RotatedImages(90, images="first").of("mnist")
    assert (first == np.rot90(pixels[:1024], axes=(1, 2))).all()  # against the clock
    assert (labels == numbered["test_labels"][:1024]).all()
    whole, _ = RotatedImages(90, images="all", turn="clockwise").of("mnist")
    assert (whole == np.rot90(pixels, -1, axes=(1, 2))).all()
    nearest, _ = RotatedImages(90, images="all", interpolation="nearest").of("mnist")
    assert (nearest == np.rot90(pixels, axes=(1, 2))).all()


def test_nearest_pixels_are_greys_of_the_image_itself(numbered: Any) -> None:
    numbered["test_images"][:] = 255 * (numbered["test_images"] > 127)
    greys, _ = RotatedImages(30, interpolation="nearest").of("mnist")
    assert set(np.unique(greys)) == {0, 255}
    smooth, _ = RotatedImages(30).of("mnist")
    inside = (slice(None), slice(10, 18), slice(10, 18))
    assert len(np.unique(smooth)) > 2
    away = np.abs(greys[inside].astype(int) - smooth[inside])
    assert (away < 128).mean() > 0.9  # the nearest has most of the weight


@pytest.mark.parametrize(
    "cell",
    [
        NetworkRun("mnist", "fp32", "full_bp", FloatSettings(lr=0.05, batch=16), 2, 0),
        NetworkRun("mnist", "int8", "full_bp", IntegerSettings(batch=16), 2, 0),
    ],
)
@pytest.mark.usefixtures("made_up_mnist")
def test_upright_images_are_answered_as_the_run_itself_did(cell: NetworkRun) -> None:
    made: list[NetworkRun] = []

    class Here:
        threads = 2  # they belong to the key of a checkpoint

        def run(self, cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
            made.extend(cells)
            yield from ((one, train_run(TrainingTask(one, store, {}))) for one in cells)

    store = CheckpointStore.of(ENVIRONMENT, Here.threads)
    context: Any = SimpleNamespace(
        executor=Here(), prior_results=PriorResults(), environment=ENVIRONMENT
    )
    asked = [(cell, RotatedImages(angle, images="all")) for angle in (0, 180)]
    upright, turned = evaluations(asked, context)
    metrics = store.progress(cell).metrics
    assert metrics is not None
    assert upright.metrics["accuracy"] == metrics["test_accuracy"][-1]
    assert (upright.point["angle"], turned.point["angle"]) == (0, 180)
    assert (upright.point["method"], upright.seed, made) == ("none", 0, [cell])
    context.prior_results = PriorResults(
        record(r.kind, dict(r.point), dict(r.metrics)) for r in (upright, turned)
    )
    again = list(evaluations(asked, context))
    assert [dict(r.metrics) for r in again] == [dict(r.metrics) for r in (upright, turned)]
    assert made == [cell], "what is recorded is not made again"


def test_a_failed_part_stops_no_other() -> None:
    runs = [replace(TUNED, seed=seed) for seed in (0, 1)]

    def failing(run: NetworkRun) -> Iterator[Any]:
        yield run.seed
        raise RunsFailedError({run: "its process died"})

    found: list[Any] = []
    parts: list[Any] = [failing(runs[0]), failing(runs[1]), iter(["the last"])]
    with pytest.raises(RunsFailedError, match="its process died") as raised:
        found.extend(each_part(parts))
    assert set(raised.value.problems) == {*runs}
    assert found == [0, 1, "the last"]  # extend keeps what comes before the failure


def test_failed_runs_are_named_if_a_later_part_cannot_begin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing() -> Iterator[Any]:
        yield from ()
        raise RunsFailedError({TUNED: "its process died"})

    def refused() -> Iterator[Any]:
        yield from ()
        raise UsageError("no engine")

    with pytest.raises(UsageError, match="no engine"):
        list(each_part([failing(), refused()]))
    assert "its process died" in capsys.readouterr().err


NONE = {"precision": "fp32", "method": "none"}


def evaluations_of(dataset: str, **accuracies: float) -> list[Record]:
    """Both angles on our images and on the first ones, by the batch of pre-training."""
    return [
        evaluation(accuracy + shift, dataset=dataset, angle=angle, start_lr=1e-3,
                   start_batch=int(batch[1:]), **NONE, **view)
        for batch, accuracy in accuracies.items()
        for view, shift in ((TABLE_2, 0.0), (FIRST, -0.02))
        for angle in (30, 45)
    ]  # fmt: skip


def test_pre_training_is_held_against_the_published_pair_at_both_angles() -> None:
    records = [
        *evaluations_of("mnist", b32=0.60, b64=0.62),
        *evaluations_of("fashion_mnist", b32=0.30, b64=0.28),
    ]
    rows = tables.by_pre_training(records).to_dict("records")
    assert [(row["data set"], row["batch"]) for row in rows] == [
        ("MNIST", "32"), ("MNIST", "64"), ("Fashion-MNIST", "32"), ("Fashion-MNIST", "64"),
    ]  # fmt: skip
    assert rows[0]["our images (%)"] == "60.00 / 60.00"
    assert rows[0]["published"] == "74.41 / 46.58"
    assert rows[0]["farthest (points)"] == "14.4 / 16.4"  # 74.41 - 60, 74.41 - 58
    numbers = re.findall(r"batch (\d+)|([\d.]+) points", tables.nearest_to_both(records))
    assert ["".join(either) for either in numbers] == ["32", "14.4", "64", "14.4"]
    figure = figures.pre_training(records)
    assert len(figure.axes) == 4


def test_pre_training_is_drawn_with_the_seeds_behind_each_mean() -> None:
    where = {"dataset": "mnist", "start_lr": 1e-3, "start_batch": 32, **NONE}
    records = [
        evaluation(accuracy, seed=seed, angle=angle, **where, **view)
        for view in (TABLE_2, FIRST)
        for seed, pair in enumerate([(0.6, 0.4), (0.7, 0.3)])
        for angle, accuracy in zip((30, 45), pair, strict=True)
    ]
    figure = figures.pre_training(records)
    mean, *seeds, _ = figure.axes[0].lines
    assert [float(mean.get_xdata()[0]), float(mean.get_ydata()[0])] == pytest.approx([65, 35])
    ends = [(line.get_xdata()[1], line.get_ydata()[1]) for line in seeds]
    assert np.array(ends) == pytest.approx(np.array([(60, 40), (70, 30)]))


def test_networks_are_shown_on_every_kind_of_images() -> None:
    row = {"dataset": "mnist", "angle": 45, "precision": "int8", "method": "none"}
    records = [
        evaluation(0.6, **row, **INTEGER_START, **TABLE_2),
        evaluation(0.7, seed=1, **row, **INTEGER_START, **TABLE_2),
        evaluation(0.5, **row, **INTEGER_START, **FIRST),
        evaluation(0.4, **row, **INTEGER_START, **{**TABLE_2, "turn": "clockwise"}),
        evaluation(0.9, **{**row, "precision": "fp32"}, **{**START, "start_batch": 64}, **TABLE_2),
    ]
    (shown,) = tables.by_images(records).to_dict("records")
    assert shown["batch"] == ""
    assert shown["row"] == "MNIST, 45°, INT8, Without fine-tuning"
    assert shown["ours (%)"] == "65.00 (60.00, 70.00)"
    assert (shown["first 1,024 (%)"], shown["all 10,000 (%)"]) == ("50.00", "")
    assert (shown["published"], shown["seeds"]) == ("60.25", "1 to 2")
    figure = figures.test_images(records)
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["untuned, 45°"]
    assert panel.get_title(loc="left").startswith("MNIST, INT8")
    drawn = [float(bar[0].get_xdata()[0]) for bar in panel.containers]
    assert drawn == pytest.approx([4.75, -10.25, -20.25])  # points from the published 60.25
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == [
        "1,024 drawn at random (ours)", "the first 1,024", "ours, turned clockwise", "published"
    ]  # fmt: skip


def test_gains_are_those_of_full_zo_in_integers() -> None:
    records = [
        run([0.2, 0.3], {}), run([0.25, 0.45], {}, seed=1), run([0.2, 0.25], {"r_max": 3}),
        run([0.2, 0.9], {"r_max": 3}, method="cls1"),
    ]  # fmt: skip
    (published, own, other) = tables.gains_in_integers(records).to_dict("records")
    name = "Fashion-MNIST, 30°"
    claims = [CLAIMS[f"B-T2-fashion_mnist-30-int8-{row}"].published for row in ("full_zo", "none")]
    assert float(published[name]) == pytest.approx(claims[0] - claims[1])
    assert (own["setting"], own[name][:6]) == ("the table's setting", "+15.00")
    assert (other["setting"], other[name]) == ("r_max 3", "+5.00")


def test_the_figure_of_images_has_the_tables_batch_size() -> None:
    row = {**ROW, "dataset": "mnist"}
    view = {**INTEGER_START, **TABLE_2}
    others = ({"images": "first"}, {"images": "all"}, {})
    records = [
        evaluation(accuracy, **row, batch=batch, **{**view, **other})
        for batch, accuracy in ((32, 0.5), (256, 0.9))
        for other in others
    ]
    figure = figures.test_images([*records, run([0.5], {}, dataset="mnist")])
    (panel,) = figure.axes
    assert len(panel.get_yticklabels()) == 1
    published = CLAIMS["B-T2-mnist-30-int8-full_zo"].published
    assert float(panel.containers[0][0].get_xdata()[0]) == pytest.approx(90 - published)


def test_figures_have_the_table_the_causes_and_the_published_number() -> None:
    records = [
        run([0.2, 0.3], {}), run([0.2, 0.4], {"batch": 32}), run([0.2, 0.3], {"r_max": 3}),
    ]  # fmt: skip
    figure = figures.integer_tuning(records)
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == "Table 2, INT8\nFashion-MNIST, 30°, Full ZO"
    assert [t.get_text() for t in panel.get_yticklabels()] == [
        "the table's setting", "r_max 3", "batch size 32",
    ]  # fmt: skip
    assert {float(line.get_xdata()[0]) for line in panel.lines} >= {37.21, 30.0}
    figure = figures.batch(records)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["Full ZO, B = 256", "Full ZO, B = 32"]


@pytest.mark.parametrize("name", sorted(ARTIFACT.figures))
def test_experiment_that_was_not_run_leaves_an_empty_figure(name: str) -> None:
    figure = ARTIFACT.figures[name]([])
    assert [text.get_text() for text in figure.axes[0].texts] == ["no records of this experiment"]


RECORDS = read_runs(current_runs(ROOT / "results", "elasticzo_discrepancies"))


def test_runs_begin_where_those_of_table_2_did() -> None:
    """The networks are the table's own: their accuracies before fine-tuning are, to the digit."""
    table = SeedGroups(read_runs(current_runs(ROOT / "results", "elasticzo_table2")))
    compared = 0
    for cell in SeedGroups(RECORDS):
        tuned_in_integers = cell.point.get("angle") and cell.point["precision"] != "fp32"
        if tuned_in_integers and cell.point.get("start_batch") == 256:
            row = {n: cell.point[n] for n in ("dataset", "angle")}
            start = table.get({**row, "precision": "int8", "method": "none"})
            assert start is not None
            begun = {r.seed: 100 * r.metrics["test_accuracy"][0] for r in cell.records}
            assert begun.items() <= start.last.items()
            compared += 1
    assert compared > 20


def test_document_names_every_statement_that_contradicts_the_papers_equations(
    ledger: list[ClaimRow],
) -> None:
    document = (ROOT / "docs" / "discrepancies.md").read_text(encoding="utf-8")
    named = {*re.findall(r"`([AB][\w-]*)`", document)}
    assert named <= {row.id for row in ledger}
    assert {row.id for row in ledger if row.verdict == INCONSISTENT} <= named


def test_a_dry_run_shows_the_runs_of_every_experiment() -> None:
    batches: list[int] = []

    class Missing:
        threads = 1

        def run(self, cells: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
            batches.append(len(cells))
            yield from ()
            raise UnknownRunsError

    context: Any = SimpleNamespace(
        executor=Missing(), prior_results=PriorResults(), environment=ENVIRONMENT
    )
    with pytest.raises(UnknownRunsError):
        list(run_module.run(SMOKE, context))
    assert len(batches) == 3  # evaluated networks, changed settings, and the longer runs
