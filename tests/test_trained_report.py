"""An artifact of cells, from several runs to what people read."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from repro import harness
from repro.artifacts import index
from repro.artifacts.base import Artifact, Context, Result
from repro.claims import elasticzo, trained
from repro.claims.index import CLAIMS
from repro.claims.verdict import Finding
from repro.measurement.records import Profile, Record, read_runs
from repro.report import notebook_api
from repro.report.claims_table import claim_rows, run_rows
from repro.report.figures import draw
from repro.report.markdown import artifact_section
from repro.report.runs import RECORDS, current_runs
from repro.report.terminal import claims_text

SLUG = "elasticzo_table1"
ZO, BP, ORDER = (f"B-T1-mnist-fp32-{name}" for name in ("full_zo", "full_bp", "order"))
ACCURACY = {"full_zo": 0.895, "cls2": 0.948, "cls1": 0.97, "full_bp": 0.99}


@dataclass(frozen=True)
class Settings:
    methods: tuple[str, ...] = tuple(ACCURACY)
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 2


def make(config: Settings, context: Context) -> Iterator[Result]:  # noqa: ARG001
    for method in config.methods:
        for seed in config.seeds:
            last = ACCURACY[method] + 0.001 * seed
            metrics = {"test_accuracy": [0.1, *[last] * config.epochs], "settings": {"lr": 1}}
            point = {"dataset": "mnist", "precision": "fp32", "method": method}
            yield Result("run", point, metrics, seed)


def findings(records: Sequence[Record]) -> list[Finding]:
    return trained.findings({name: elasticzo.QUANTITIES[name] for name in TABLE.claims}, records)


def count(records: Sequence[Record]) -> Figure:
    figure, panel = plt.subplots()
    panel.set_title(str(len(records)))
    return figure


TABLE = Artifact(
    slug=SLUG,
    paper="elasticzo",
    title="Table 1",
    run=make,
    claims=(ZO, BP, ORDER),
    findings=findings,
    figures={"seeds": count},
    captions={"seeds": "How many records there are"},
    profiles={"smoke": Settings(epochs=1), "quick": Settings(epochs=1), "paper": Settings()},
    selector_fields=("methods", "seeds"),
)


class Clock:
    """A day goes by at every look, so that no two runs are of the same second."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self, zone: timezone) -> datetime:
        self.time += timedelta(days=1)
        return self.time.astimezone(zone)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put the artifact and its claims where those of the suite are; return what runs it."""
    monkeypatch.setattr(index, "load", lambda slug: TABLE)
    for claim in elasticzo.CLAIMS:
        monkeypatch.setitem(CLAIMS, claim.id, claim)
    monkeypatch.setattr(harness, "datetime", Clock())

    def run_one(profile: Profile, **scope: Any) -> Path:
        config = replace(TABLE.profiles[profile], **scope)  # type: ignore[type-var]
        return harness.run_artifact(TABLE, profile, config, tmp_path)

    return run_one


def test_cells_of_several_runs_stand_side_by_side(run: Callable[..., Path], tmp_path: Path) -> None:
    quick = run("quick")
    first = run("paper", methods=("full_zo",), seeds=(0,))
    custom = run("paper", epochs=3)
    second = run("paper", methods=("full_zo",), seeds=(1, 2))
    assert custom.name.startswith("custom-")
    assert current_runs(tmp_path, SLUG) == [second, first, quick]
    rows = {row.id: row for row in claim_rows(tmp_path, [SLUG])}

    zo = rows[ZO]
    assert (zo.profile, zo.n_seeds, zo.verdict) == ("paper", 3, "reproduced")
    assert zo.ours == pytest.approx(89.6)
    assert zo.interval == pytest.approx(4.303 * 0.1 * (1 + 1 / 3) ** 0.5, rel=1e-3)
    assert zo.interval_kind == "prediction"
    assert zo.record_files == [second.name, first.name]
    assert zo.records == second.name

    bp = rows[BP]  # of the quick profile alone: a value, no verdict
    assert (bp.profile, bp.n_seeds, bp.verdict) == ("quick", 3, "not run")
    assert bp.ours == pytest.approx(99.1)
    assert all(profile in bp.reason for profile in ("quick", "paper"))
    assert (rows[ORDER].profile, rows[ORDER].verdict) == ("quick", "not run")


def test_a_cell_that_was_not_run_has_neither_profile_nor_files(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    run("paper", methods=("full_zo",))
    bp = next(row for row in claim_rows(tmp_path, [SLUG]) if row.id == BP)
    assert (bp.ours, bp.profile, bp.records, bp.record_files) == (None, None, None, [])
    assert bp.verdict == "not run"
    assert "Full BP on MNIST, FP32" in bp.reason


def test_an_order_that_one_seed_leaves_open_is_shown_with_its_run(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    one = run("paper", seeds=(1,))
    order = next(row for row in claim_rows(tmp_path, [SLUG]) if row.id == ORDER)
    assert (order.verdict, order.shown_verdict, order.n_seeds) == ("undecided", "undecided", 1)
    assert order.record_files == [one.name]
    assert "trained, paper, 1 seed, PyTorch | undecided |" in artifact_section(
        tmp_path, SLUG, claim_rows(tmp_path, [SLUG])
    )


def test_a_report_of_one_run_is_of_that_run_alone(run: Callable[..., Path]) -> None:
    run("paper")
    one = run("smoke", methods=("full_zo",), seeds=(1,))
    zo, bp, _ = run_rows(SLUG, [one])
    assert (zo.profile, zo.n_seeds, zo.interval, zo.verdict) == ("smoke", 1, None, "not run")
    assert zo.ours == pytest.approx(89.6)
    assert bp.ours is None


def test_readme_says_how_much_is_behind_each_number(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    quick = run("quick")
    one = artifact_section(tmp_path, SLUG, claim_rows(tmp_path, [SLUG]))
    assert f"Profile `quick`, record file [`{quick.name}`]({SLUG}/{quick.name})," in one
    run("paper", methods=("full_zo",))
    text = artifact_section(tmp_path, SLUG, claim_rows(tmp_path, [SLUG]))
    assert f"Profile `paper`, `quick`, [2 record files]({SLUG})," in text
    assert "| 89.80 % | 89.60 ± 0.5 % | trained, paper, 3 seeds, PyTorch | reproduced |" in text
    quick = "| 99.10 % | 99.10 ± 0.5 % | trained, quick, 3 seeds, PyTorch | "
    assert f"{quick}not run (profile quick only) |" in text
    assert "Of 3 statements: 1 × reproduced, 2 × not run (profile quick only)" in text  # noqa: RUF001


def test_terminal_tells_a_lower_profile_from_no_run(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    run("quick", methods=("full_bp",))
    by_claim = {
        line.split()[0]: line
        for line in claims_text(claim_rows(tmp_path, [SLUG])).splitlines()
        if line.startswith("B-")
    }
    assert by_claim[BP].endswith("not run (profile quick only)")
    assert by_claim[ZO].rstrip().endswith("not run")


def test_provenance_names_all_there_is(run: Callable[..., Path]) -> None:
    read = read_runs([run("quick"), run("paper", methods=("full_zo",))])
    table = notebook_api.provenance(read)[""]
    assert set(table["profile"].split("; ")) == {"quick", "paper"}
    assert table["records"] == "12"
    assert table["computed (UTC)"] == max(record.utc for record in read)
    assert "; " not in table["Python"]


def test_figures_and_notebook_read_all_runs(
    run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run("paper", seeds=(0,)), run("paper", seeds=(1,)), run("smoke")]
    svg, _ = draw(SLUG, current_runs(tmp_path, SLUG), tmp_path / "figures")
    assert ">8<" in svg.read_text()  # four methods, two seeds, none of the smoke profile
    monkeypatch.setenv(RECORDS, os.pathsep.join(str(path) for path in runs))
    assert len(notebook_api.newest_records(SLUG)) == 8
    assert len(notebook_api.records_beside(SLUG)) == 8
    assert notebook_api.records_beside("elasticzo_fig2") == []
    monkeypatch.delenv(RECORDS)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert notebook_api.records_beside("elasticzo_fig2") == []
    assert len(notebook_api.newest_records(SLUG)) == 8


def test_a_finding_without_a_profile_has_that_of_its_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the findings of a new artifact have none."""

    def alone(_: Sequence[Record]) -> list[Finding]:
        return [Finding(ZO, 89.8, "as counted", n_seeds=3, prediction=1.0)]

    table = replace(TABLE, findings=alone, claims=(ZO,))
    monkeypatch.setitem(index.ARTIFACTS, SLUG, table)
    verdicts = {}
    for profile in ("quick", "paper"):
        path = harness.run_artifact(table, profile, Settings(), tmp_path / profile)  # type: ignore[arg-type]
        assert path is not None
        (row,) = run_rows(SLUG, [path])
        verdicts[profile] = row.verdict, row.profile
    assert verdicts == {"quick": ("not run", "custom"), "paper": ("reproduced", "paper")}
