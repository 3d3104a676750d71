"""What people read is made from records, the same bytes each time."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import msgspec
import nbformat
import pytest

from repro.artifacts import index
from repro.artifacts.base import config_dict
from repro.claims.index import CLAIMS
from repro.cli import main
from repro.core.errors import ReproError
from repro.core.progress import progress
from repro.core.units import format_bytes
from repro.measurement.records import Profile, Record, profile_of, read_run
from repro.plotting.style import save, style
from repro.report import notebooks
from repro.report.claims_table import ClaimRow, read_ledger
from repro.report.commands import command_of
from repro.report.figures import draw
from repro.report.headlines import HEADLINES, headline_table
from repro.report.kept import kept, key_of
from repro.report.markdown import artifact_table, marks, update_readme
from repro.report.runs import current_runs, require_runs
from repro.report.summary import read_summary

ROOT = Path(__file__).parents[1]
BEGIN, END = marks("results")


def test_readme_between_the_marks_is_replaced_and_the_rest_kept(tmp_path: Path) -> None:
    readme, results = tmp_path / "README.md", tmp_path / "results"
    results.mkdir()
    readme.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\n## More\n")
    update_readme(readme, results, [])
    once = readme.read_text()
    assert once.startswith(f"# Title\n\n{BEGIN}\n\n| statement | published | ours |")
    assert once.endswith(f"{END}\n\n## More\n")
    assert "old" not in once
    assert {path.name for path in (tmp_path / "docs" / "figures").glob("*.png")} == {
        "scorecard-light.png",
        "scorecard-dark.png",
    }
    update_readme(readme, results, [])
    assert readme.read_text() == once


@pytest.mark.parametrize(
    ("relation", "ours", "differs"),
    [
        ("equals", 82.0, False),
        ("equals", 83.5, True),
        ("equals", 76.5, True),
        ("at least", 83.5, False),
        ("at least", 76.5, True),
        ("at most", 83.5, True),
        ("at most", 76.5, False),
    ],
)
def test_a_result_differs_if_its_interval_excludes_the_published_number(
    relation: str, ours: float, differs: bool, ledger: list[ClaimRow]
) -> None:
    made = replace(ledger[0], relation=relation, published=80.0, ours=ours, interval=3.0)
    assert made.differs == differs
    assert not replace(made, interval=None).differs


def test_readme_and_ledger_are_those_of_the_records(ledger: list[ClaimRow]) -> None:
    readme = (ROOT / "README.md").read_text()
    assert headline_table(ledger) in readme
    assert artifact_table(ledger, read_summary().recorded_seconds) in readme
    assert len(readme.splitlines()) <= 200
    document = (ROOT / "results" / "README.md").read_text()
    assert all(f"| {row.id} |" in document for row in ledger)


@pytest.mark.parametrize(
    ("slug", "profile", "device", "named"),
    [
        ("elasticzo_table1", "paper", "cpu", False),
        ("elasticzo_table1", "paper", "cuda", True),
        ("elasticzo_table1", "custom", "cuda", True),
        ("mezo_step_time", "paper", "cuda", False),
        ("mezo_step_time", "paper", "cpu", True),
    ],
)
def test_the_command_names_a_device_other_than_the_profile_s(
    slug: str, profile: Profile, device: str, named: bool
) -> None:
    recorded = read_run(current_runs(ROOT / "results", "elasticzo_table1")[0])[0]
    config = {**recorded.config, "device": device}
    record = msgspec.structs.replace(recorded, profile=profile, config=config)
    command = command_of(index.load(slug), [record])
    assert (f" --device {device}" in command) == named


@pytest.mark.parametrize("profile", ["custom", "gpu"])
def test_a_run_without_a_profile_is_named_by_the_nearest(profile: Profile) -> None:
    recorded = read_run(current_runs(ROOT / "results", "elasticzo_table1")[0])[0]
    artifact = index.load("elasticzo_table1")
    assert "gpu" not in artifact.profiles
    for name, usual in artifact.profiles.items():
        config = {**config_dict(usual), "epochs": 7}
        record = msgspec.structs.replace(recorded, profile=profile, config=config)
        command = command_of(artifact, [record])
        assert f" --profile {name} " in command
        assert " --epochs 7" in command


def test_an_empty_results_variable_counts_as_unset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_RESULTS", "")
    assert read_ledger(None).note.startswith("No records in results:")


def test_headlines_name_statements() -> None:
    assert HEADLINES.keys() <= CLAIMS.keys()
    assert not any(CLAIMS[name].same_as for name in HEADLINES)


@pytest.mark.parametrize("text", ["# Title\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n"])
def test_readme_without_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(ReproError, match="where the results belong"):
        update_readme(readme, tmp_path, [])
    assert readme.read_text() == text


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    def drawn(directory: Path) -> list[bytes]:
        with style():
            figure, panel = plt.subplots()
            panel.plot([1, 2, 3], label="line")
            panel.legend()
        return [path.read_bytes() for path in save(figure, directory, "figure")]

    assert drawn(tmp_path / "a") == drawn(tmp_path / "b")


def test_committed_claims_have_a_reason_and_what_is_computed_a_value(
    ledger: list[ClaimRow],
) -> None:
    for row in ledger:
        assert row.reason
        if row.basis != "trained":  # cells may wait for their run, or for a data set
            assert row.ours is not None, row.id
            assert row.records


def test_notebook_is_stale_once_records_or_template_change(tmp_path: Path) -> None:
    slug = "elasticzo_fig2"
    runs = require_runs(ROOT / "results", slug)
    made = ROOT / "notebooks" / f"{slug}.ipynb"
    assert notebooks.is_stale(slug, tmp_path / "absent.ipynb", runs)
    damaged = tmp_path / "damaged.ipynb"
    damaged.write_bytes(made.read_bytes()[:1000])
    assert notebooks.is_stale(slug, damaged, runs)
    changed = tmp_path / runs[0].name
    changed.write_bytes(runs[0].read_bytes().replace(b'"metrics"', b' "metrics"', 1))
    assert notebooks.is_stale(slug, made, [changed, *runs[1:]])
    another = tmp_path / f"{profile_of(runs[0])}-20300101T000000Z-nocommit.jsonl"
    another.write_bytes(runs[0].read_bytes())
    assert notebooks.is_stale(slug, made, [another, *runs])
    assert "your own records" not in made.read_text()
    own = notebooks.assemble(slug, own=True).cells[0].source.splitlines()
    assert own[0].startswith("# ")
    assert "your own records" in own[2]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (1000, "1 kB"),
        (14_430_000_000, "14.4 GB"),
        (-2_500_000, "-2.5 MB"),
        (7.009e12, "7.01 TB"),
        (1e18, "1000 PB"),
    ],
)
def test_bytes_as_people_read_them(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_progress_without_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("measuring", 3) as advance:
        for name in "abc":
            advance(name)
    assert capsys.readouterr().err == "measuring: 3/3 (c)\n"


def test_documented_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    documented = {
        title: set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    }
    assert documented["`repro claims --json`"] - {"schema"} == {
        *ClaimRow.__dataclass_fields__,
        "difference",
    }
    assert documented["Records"] == set(Record.__struct_fields__)
    assert main(["list", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert documented["`repro list --json`"] == row.keys()


def test_notebooks_hold_no_path_of_a_machine() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.dumps(json.loads(path.read_text())["cells"])
        assert not re.findall(r"(?<![\w.])/(?:home|root|Users|tmp|work)/", cells), path


def test_notebooks_of_one_kernel_are_as_if_each_had_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """\
import os
print(sorted({"left", "artifact"} & globals().keys()), os.environ["REPRO_RECORDS"])
left = 1"""
    failing = {"elasticzo_fig4": "raise KeyError('no such column')"}

    new: Any = nbformat.v4  # which is untyped

    def assembled(slug: str, *, own: bool) -> Any:
        cells = [new.new_markdown_cell(f"# {own}"), new.new_code_cell(failing.get(slug, code))]
        return new.new_notebook(cells=cells)

    monkeypatch.setattr(notebooks, "assemble", assembled)
    slugs = ("elasticzo_fig2", "elasticzo_fig3", "elasticzo_fig4", "elasticzo_fig5")
    paths = {slug: tmp_path / f"{slug}.ipynb" for slug in slugs}
    runs = {slug: require_runs(ROOT / "results", slug) for slug in slugs}
    with pytest.raises(ReproError, match=r"elasticzo_fig4 failed: KeyError: 'no such column'"):
        list(notebooks.build((slug, runs[slug], paths[slug]) for slug in slugs))
    assert [slug for slug in slugs if paths[slug].exists()] == ["elasticzo_fig2", "elasticzo_fig3"]
    for slug in slugs[:2]:
        _, cell = json.loads(paths[slug].read_text())["cells"]
        (output,) = cell["outputs"]
        assert cell["execution_count"] == 1
        assert "".join(output["text"]) == f"[] {os.pathsep.join(map(str, runs[slug]))}\n"


def test_a_figure_is_drawn_again_only_if_something_changed(tmp_path: Path) -> None:
    runs = require_runs(ROOT / "results", "elasticzo_fig6")
    (copy,) = [Path(shutil.copy(run, tmp_path)) for run in runs]
    paths = draw("elasticzo_fig6", [copy], tmp_path / "figures")
    drawn = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    assert draw("elasticzo_fig6", [copy], tmp_path / "figures") == paths
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths} == drawn
    paths[0].write_text("changed by hand")
    paths[1].unlink()
    assert draw("elasticzo_fig6", [copy], tmp_path / "figures") == paths
    assert {path: path.read_bytes() for path in paths} == {p: drawn[p][0] for p in paths}
    # The time of writing, as a file system may give a new file the inode just freed.
    before = {path: path.stat().st_mtime_ns for path in paths}
    copy.write_bytes(copy.read_bytes().replace(b"{", b"{ ", 1))
    draw("elasticzo_fig6", [copy], tmp_path / "figures")
    assert all(path.stat().st_mtime_ns > before[path] for path in paths)


def test_a_kept_value_is_made_once_for_each_key_and_again_if_damaged(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(len(made))
        return [*made]

    assert kept("value", "a", make) == kept("value", "a", make) == [0]
    assert kept("value", "b", make) == [0, 1]
    (tmp_path / "cache" / "report" / "value.json").write_text("{")
    assert kept("value", "b", make) == [0, 1, 2]
    source = tmp_path / "input"
    source.write_text("1")
    first = key_of([source])
    source.write_text("2")
    assert key_of([source]) != first != key_of([source], "more")
