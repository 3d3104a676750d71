"""Records of two engines, or of two forms of a data set, stand side by side."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.artifacts import elasticzo_table1
from repro.artifacts.shared import scores
from repro.claims.trained import SeedGroups
from repro.commands.options import parse
from repro.commands.run import RunOptions
from repro.harness import config_dict
from repro.measurement import environment
from repro.measurement.records import Record, read_run, read_runs, write_run
from repro.report.claims_table import claim_rows
from repro.report.runs import current_runs

SLUG = "elasticzo_table1"
CLAIM = "B-T1-mnist-fp32-full_zo"
RESULTS = Path(__file__).parents[1] / "results"
ENVIRONMENT = environment.capture()


def write(
    directory: Path,
    engine: str,
    accuracies: Sequence[float],
    utc: str,
    dataset: str = "mnist",
    point: str = "mnist",
) -> Path:
    """Write a run of Full ZO in float32, a seed for each accuracy."""
    seeds = tuple(range(len(accuracies)))
    config = config_dict(
        elasticzo_table1.Config(datasets=(dataset,), seeds=seeds, engine=engine)  # type: ignore[arg-type]
    )
    records = []
    for seed, accuracy in enumerate(accuracies):
        settings: dict[str, Any] = {"problem": dataset, "lr": 0.1, "batch": 32}
        if engine == "native":
            settings["engine"] = engine
        records.append(
            Record(
                schema_version=1,
                artifact=SLUG,
                profile="paper",
                config=config,
                seed=seed,
                kind="run",
                point={"dataset": point, "precision": "fp32", "method": "full_zo"},
                metrics={
                    "test_accuracy": [0.1, accuracy],
                    "diverged": False,
                    "settings": settings,
                    "trained": {"engine": engine},
                },
                utc=utc,
                environment=ENVIRONMENT,
            )
        )
    return write_run(directory / SLUG, records)


def test_a_run_on_another_engine_replaces_nothing(tmp_path: Path) -> None:
    write(tmp_path, "native", (0.89, 0.90, 0.91), "2026-01-01T00:00:00Z")
    write(tmp_path, "torch", (0.80, 0.82), "2026-01-02T00:00:00Z")
    records = read_runs(current_runs(tmp_path, SLUG))
    assert sorted((r.engine, r.seed) for r in records) == [
        ("native", 0), ("native", 1), ("native", 2), ("torch", 0), ("torch", 1),
    ]  # fmt: skip
    row = next(row for row in claim_rows(tmp_path, [SLUG]) if row.id == CLAIM)
    assert (row.engine, row.n_seeds) == ("native", 3)  # most seeds lead, not the newest run
    assert row.values == pytest.approx({"trained": 90.0, "trained, torch": 81.0})
    table = scores.runs(records)
    assert list(table["engine"]) == ["native", "torch"]


def test_the_same_engine_again_replaces_its_seeds(tmp_path: Path) -> None:
    write(tmp_path, "native", (0.89, 0.90, 0.91), "2026-01-01T00:00:00Z")
    write(tmp_path, "native", (0.95,), "2026-01-02T00:00:00Z")
    (cell,) = SeedGroups(read_runs(current_runs(tmp_path, SLUG)))
    assert cell.last == pytest.approx({0: 95.0, 1: 90.0, 2: 91.0})


def test_another_form_of_a_data_set_replaces_nothing(tmp_path: Path) -> None:
    write(tmp_path, "native", (0.30, 0.31), "2026-01-01T00:00:00Z", "modelnet40", "modelnet40")
    newer = "2026-01-02T00:00:00Z"
    write(tmp_path, "native", (0.5,), newer, "modelnet40_points", "modelnet40")
    rows = {row.id: row for row in claim_rows(tmp_path, [SLUG])}
    row = rows["B-T1-modelnet40-fp32-full_zo"]
    values = {"trained": 30.5, "trained, modelnet40_points": 50.0}
    assert row.values == pytest.approx(values)
    assert "--datasets modelnet40 " in row.command


def test_the_printed_command_names_engine_data_set_and_seeds(tmp_path: Path) -> None:
    write(tmp_path, "native", (0.89, 0.90, 0.91), "2026-01-01T00:00:00Z")
    rows = {row.id: row for row in claim_rows(tmp_path, [SLUG])}
    assert rows[CLAIM].command == (
        "repro run elasticzo_table1 --profile paper --engine native --datasets mnist "
        "--precisions fp32 --methods full_zo --seeds 0 1 2"
    )
    absent = rows["B-T1-modelnet40-fp32-cls1"].command
    assert absent == (
        "repro run elasticzo_table1 --profile paper --datasets modelnet40 --precisions fp32 "
        "--methods cls1"
    )


@pytest.mark.parametrize("recorded", [True, False])
def test_every_printed_command_is_one_that_the_command_line_takes(
    recorded: bool, tmp_path: Path
) -> None:
    from repro.artifacts import index

    for row in claim_rows(RESULTS if recorded else tmp_path):
        repro, action, slug, *rest = shlex.split(row.command)
        assert (repro, action, slug) == ("repro", "run", row.artifact)
        parse(RunOptions, "repro run", index.load(slug), rest)


def test_older_records_are_read_with_their_engine_and_batch_size() -> None:
    for path in (RESULTS / "elasticzo_int8_sign").glob("paper-*.jsonl"):
        for record in read_run(path):
            assert (record.engine, record.point["batch"]) == ("native", 256)
            assert record.dataset == record.point["dataset"]
    before_there_was_a_choice = min((RESULTS / "elasticzo_search").glob("*.jsonl"))
    assert {record.engine for record in read_run(before_there_was_a_choice)} <= {"torch", "native"}
