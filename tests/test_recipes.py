"""The guide's recipes: made from records, equal to the tuned settings, and without failed runs."""

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from made_up import made
from repro.data.base import ArraySpec
from repro.data.catalog import load_set
from repro.measurement.records import Record, write_run
from repro.report.documents import TABLES, write_tables
from repro.report.markdown import marks
from repro.report.recipes import TASKS, recipes_table
from repro.training.hyperparameters import TUNED

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs/methods.md"
METHODS = {"Full ZO": "full_zo", 'ElasticZO, `"fc3"`': "cls2", 'ElasticZO, `"fc2"`': "cls1"}


METHOD_OF = {name: label for label, name in METHODS.items()}


def rows(precision: str, results: Path = ROOT / "results") -> list[dict[str, str]]:
    head, _, *lines = recipes_table(results, precision).splitlines()
    names = [cell.strip() for cell in head.strip("|").split("|")]
    return [
        dict(zip(names, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        for line in lines
    ]


def committed(slug: str) -> list[dict[str, Any]]:
    """Return the records of the paper profile as plain JSON, the newest last."""
    files = sorted((ROOT / "results" / slug).glob("paper-*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_the_documents_have_the_tables_of_the_records(tmp_path: Path) -> None:
    for name in TABLES:
        shutil.copy(ROOT / "docs" / name, tmp_path)
    write_tables(tmp_path, ROOT / "results")
    for name in TABLES:
        written = (tmp_path / name).read_bytes()
        assert written == (ROOT / "docs" / name).read_bytes(), (
            "run: repro report --readme README.md"
        )
    body = GUIDE.read_text(encoding="utf-8").partition(marks("recipes")[0])[2]
    assert body.count("| Full ZO |") == sum(
        row["method"] == "Full ZO" for precision in ("fp32", "int8") for row in rows(precision)
    )


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_recipe_has_the_tuned_settings_and_the_mean_accuracy(precision: str) -> None:
    found = rows(precision)
    assert found
    records = committed("elasticzo_table1") + committed("elasticzo_table2")
    titles = {title: task for task, (title, _) in TASKS.items()}
    for row in found:
        dataset, angle = titles[row["data"]]
        method = METHODS[row["method"]]
        family = dataset if angle is None else f"rotated_{dataset}"
        tuned = TUNED[family, precision][method]  # type: ignore[index]
        for name in {"lr", "eps", "clip", "r_max", "batch"} & row.keys():
            assert float(row[name]) == getattr(tuned, name), row

        def curves(method: str, point: Any = (dataset, angle)) -> dict[int, list[float]]:
            return {
                record["seed"]: record["metrics"]["test_accuracy"]
                for record in records
                if (record["point"]["dataset"], record["point"].get("angle")) == point
                and (record["point"]["precision"], record["point"]["method"]) == (precision, method)
            }

        by_seed, by_bp = curves(method), curves("full_bp")
        epochs = 100 if angle is None else 50
        assert {len(curve) for curve in by_seed.values()} == {epochs + 1}  # before and after each
        per_epoch = -(-(60_000 if angle is None else 1024) // int(row["batch"]))
        assert row["steps"] == f"{epochs * per_epoch:,}"
        means = [statistics.mean(curve[at] for curve in by_seed.values()) for at in (0, -1)]
        backpropagation = statistics.mean(curve[-1] for curve in by_bp.values())
        shown = [row[name] for name in ("before", "after", "backpropagation")]
        assert shown == [f"{100 * value:.2f} %" for value in (*means, backpropagation)]
        assert means[1] >= 0.75 * backpropagation


def test_runs_that_failed_or_have_few_seeds_are_left_out(tmp_path: Path) -> None:
    """A recipe needs three quarters of backpropagation's accuracy, and five seeds."""

    def runs(method: str, end: float, seeds: int) -> list[Record]:
        settings = {"lr": 0.1, "eps": 0.01, "clip": 1.0, "batch": 32, "epochs": 1}
        metrics = {"test_accuracy": [0.1, end], "settings": settings}
        point = {"dataset": "mnist", "precision": "fp32", "method": method}
        return [made(point, metrics, artifact="elasticzo_table1", seed=s) for s in range(seeds)]

    def listed(cls1: float, seeds: int = 5, *, of_bp: int = 5) -> set[str]:
        (tmp_path / "elasticzo_table1").mkdir(exist_ok=True)
        (tmp_path / "elasticzo_table2").mkdir(exist_ok=True)
        for path in (tmp_path / "elasticzo_table1").iterdir():
            path.unlink()
        written = [*runs("full_bp", 0.8, of_bp), *runs("cls1", cls1, seeds)]
        write_run(tmp_path / "elasticzo_table1", written)
        return {row["method"] for row in rows("fp32", tmp_path)}

    assert listed(0.61) == {METHOD_OF["cls1"]}
    assert listed(0.59) == set()
    assert listed(0.61, seeds=4) == set()
    assert listed(0.61, of_bp=0) == set()  # there is nothing to compare it with


def test_the_numbers_of_images_are_those_of_the_catalogue() -> None:
    for (dataset, angle), (_, images) in TASKS.items():
        name = dataset if angle is None else f"rotated_{dataset}"
        labels = load_set(name).content["train_labels"]
        assert isinstance(labels, ArraySpec)
        assert labels.shape == (images,)
