"""Records of two engines, or of two forms of a data set, stand side by side."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from made_up import made
from repro.artifacts import elasticzo_table1
from repro.artifacts.base import config_dict
from repro.artifacts.shared import scores
from repro.claims.trained import SeedGroups
from repro.commands.options import parse
from repro.commands.run import RunOptions
from repro.core.errors import ReproError
from repro.measurement.records import read_run, read_runs, write_run
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.runs import current_runs
from repro.site import provenance

SLUG = "elasticzo_table1"
CLAIM = "B-T1-mnist-fp32-full_zo"
RESULTS = Path(__file__).parents[1] / "results"


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
            made(
                {"dataset": point, "precision": "fp32", "method": "full_zo"},
                {
                    "test_accuracy": [0.1, accuracy],
                    "diverged": False,
                    "settings": settings,
                    "trained": {"engine": engine},
                },
                artifact=SLUG,
                config=config,
                seed=seed,
                utc=utc,
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
    recorded: bool, tmp_path: Path, ledger: list[ClaimRow]
) -> None:
    from repro.artifacts import index

    for row in ledger if recorded else claim_rows(tmp_path):
        repro, action, slug, *rest = shlex.split(row.command)
        assert (repro, action, slug) == ("repro", "run", row.artifact)
        parse(RunOptions, "repro run", index.load(slug), rest)


def test_networks_before_fine_tuning_name_the_engine_that_pre_trained_them(
    ledger: list[ClaimRow],
) -> None:
    """In float32 PyTorch pre-trains by Adam, because the engine has no Adam."""
    rows = {row.id: row for row in ledger}
    assert rows["B-T2-mnist-30-fp32-none"].engine == "torch"


def test_smoke_runs_stand_beside_no_others(tmp_path: Path) -> None:
    paper = write(tmp_path, "native", [0.9], "2026-01-02T00:00:00Z")
    smoke = paper.with_name("smoke-20260103T000000Z-nocommit.jsonl")
    smoke.write_bytes(paper.read_bytes().replace(b'"paper"', b'"smoke"'))
    assert current_runs(tmp_path, SLUG) == [paper]
    paper.unlink()
    assert current_runs(tmp_path, SLUG) == [smoke]


def test_a_record_of_a_former_profile_has_a_command(tmp_path: Path) -> None:
    (record,) = read_run(write(tmp_path, "native", [0.9], "2026-01-02T00:00:00Z"))
    former = msgspec.structs.replace(record, profile="day")
    command = provenance.command(elasticzo_table1.ARTIFACT, former)
    assert command.startswith(f"repro run {SLUG} --profile ")
    assert "--engine native" in command


def test_records_of_another_artifact_are_refused(tmp_path: Path) -> None:
    written = write(tmp_path, "native", [0.9], "2026-01-02T00:00:00Z")
    (tmp_path / "elasticzo_table2").mkdir()
    written.rename(tmp_path / "elasticzo_table2" / written.name)
    with pytest.raises(ReproError, match="records of elasticzo_table1 among those of"):
        claim_rows(tmp_path, ["elasticzo_table2"])


def test_every_length_of_a_run_has_a_row_in_the_notebook() -> None:
    records = read_runs(current_runs(RESULTS, SLUG))
    table = scores.runs([record for record in records if record.point["dataset"] == "modelnet40"])
    of_cls1 = [name for name in table.index if "ZO-Feat-Cls1" in name]
    lengths = {
        group.length
        for point in [{"dataset": "modelnet40", "precision": "fp32", "method": "cls1"}]
        for group in (SeedGroups(records).get(point), *SeedGroups(records).others(point))
        if group is not None
    }
    assert len(of_cls1) >= len(lengths) >= 1
