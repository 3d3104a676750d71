"""The command line as a user meets it: real processes, exit statuses, messages."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro import __version__
from repro.artifacts import index
from repro.claims.verdict import UNDECIDED
from repro.cli import build_parser, main
from repro.core.errors import UsageError
from repro.measurement.records import read_runs
from repro.measurement.renamed import PRESENT_SLUGS
from repro.report.claims_table import ClaimRow
from repro.report.runs import current_runs
from repro.report.summary import SUMMARY, write_summary

ROOT = Path(__file__).parents[1]


def repro(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "repro", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def status_of(*arguments: str) -> object:
    """The status of a command in this process."""
    try:
        return main([*arguments])
    except SystemExit as stopped:
        return stopped.code


def test_list_shows_paper_time_and_verdicts(
    capsys: pytest.CaptureFixture[str], ledger: list[ClaimRow]
) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("elasticzo_table1 "))
    records = read_runs(current_runs(ROOT / "results", "elasticzo_table1"))
    hours = sum(sum(record.metrics["seconds"]) for record in records) / 3600
    assert lines[at].split()[1:4] == ["elasticzo", f"{hours:.1f}", "h"]
    of_table = [row for row in ledger if row.artifact == "elasticzo_table1"]
    undecided = sum(row.verdict == UNDECIDED for row in of_table)
    assert f"{undecided} undecided" in lines[at + 1]


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    (row, *_) = json.loads(capsys.readouterr().out)
    assert set(row) == {
        "slug",
        "paper",
        "title",
        "claims",
        "profiles",
        "recorded_seconds",
        "verdicts",
    }
    assert row["profiles"] == ["smoke", "quick", "paper"]


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["run", "mezo_fig3", "--help"]])
def test_listing_and_help_import_neither_torch_nor_pandas(arguments: list[str]) -> None:
    code = (
        "import sys; from repro.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'transformers', 'pandas', 'matplotlib'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"zo-repro {__version__}\n"


def test_run_help_documents_every_option_of_the_artifact() -> None:
    done = repro("run", "mezo_fig3", "--help")
    assert done.returncode == 0
    for option in ("--profile", "--out", "--context", "--measure-dtypes", "--live-layers"):
        assert option in done.stdout
    assert "--profile {smoke,quick,paper}" in done.stdout  # those that it has


def test_unknown_artifact_gets_the_nearest_name() -> None:
    done = repro("run", "mezo_fig33")
    assert done.returncode == 2
    assert "no artifact named 'mezo_fig33'; did you mean mezo_fig3" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "huge"], "huge"),
        (["--profile"], "--profile"),
        (["--context", "0"], "context = 0"),
        (["--context", "many"], "many"),
        (["--heads", "7"], "H = 7 do not divide"),
        (["--live-layers", "99"], "L' = 99"),
        (["--bytes-per-parameter", "nan"], "bytes_per_parameter = nan"),
        (["--device", "tpu"], "tpu"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_wrong_options_are_usage_errors(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("run", "mezo_fig3", "--out", str(tmp_path / "out"), *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["list", "--js"], ["data", "list", "--js"], ["--vers"]])
def test_no_option_is_abbreviated(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"unrecognized arguments: {words[-1]}" in capsys.readouterr().err


def test_cuda_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is there")
    assert main(["run", "mezo_fig3", "--device", "cuda", "--out", str(tmp_path)]) == 2
    assert "finds no CUDA device here; use --device cpu" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_results_directory_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    command = ["run", "mezo_fig3", "--profile", "smoke", "--out", str(tmp_path / "file")]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "cannot write to" in error
    assert "--out DIR" in error


def test_a_corrupted_record_stops_claims_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "results" / "mezo_fig3"
    directory.mkdir(parents=True)
    (directory / "quick-20260101T000000Z-nocommit.jsonl").write_text("{}\n")
    for command in ("claims", "report"):
        assert main([command, "--results", str(directory.parent)]) == 1
        assert ".jsonl:1: not a record" in capsys.readouterr().err


def test_claims_without_records_are_not_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["claims", "--json", "--results", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in rows} == {"not run"}
    assert {row["ours"] for row in rows} == {None}
    assert set(rows[0]) == {*ClaimRow.__dataclass_fields__, "difference", "schema"}
    assert {row["schema"] for row in rows} == {2}


@pytest.mark.parametrize("group", [(), ("data",), ("engine",)])
def test_a_group_of_commands_alone_prints_help(group: tuple[str, ...]) -> None:
    done = repro(*group)
    assert done.returncode == 0
    assert done.stdout == repro(*group, "--help").stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["clams"], "did you mean claims"),
        (["data", "lits"], "did you mean list"),
        (["data", "path", "mnits"], "did you mean mnist"),
        (["run", "elasticzo_tabel1"], "did you mean elasticzo_table1"),
        (["claim", "A44"], "did you mean A4"),
        (["claim", "B-T1-mnist-fp32"], "did you mean B-T1-mnist-fp32-full_zo"),
        (["claims", "--artifact", "mezo_fg4"], "did you mean mezo_fig4"),
        (["claims", "--verdict", "undecidd"], "did you mean undecided"),
        (["claims", "--basis", "time"], "did you mean timed"),
        (["plan", "--budget", "8GB", "--dtype", "bf16"], "did you mean bfloat16"),
        (["run", "zzzzzz"], "repro list lists all"),
        (["data", "fetch", "zzzzzz"], "repro data list lists all"),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(
    arguments: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*arguments) == 2
    error = capsys.readouterr().err
    assert near in error
    *_, message = error.splitlines()
    assert len(message) < 150  # not the whole list


def test_claims_are_one_line_each_with_whole_ids(
    ledger: list[ClaimRow], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = ledger
    assert max(map(len, lines)) <= 100
    known = {row.id: row for row in rows}
    shown = [line for line in lines if line.split()[0] in known]
    assert [line.split()[0] for line in shown] == [row.id for row in rows]
    assert all(line.endswith(known[line.split()[0]].shown_verdict) for line in shown)
    assert len(lines) == len(rows) + len({row.artifact for row in rows}) + 1 + 2  # header, summary


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        (["--paper", "mezo"], lambda row: row.paper == "mezo"),
        (["--artifact", "elasticzo_fig5"], lambda row: row.artifact == "elasticzo_fig5"),
        (["--verdict", "not", "run"], lambda row: row.verdict == "not run"),
        (["--verdict", "not-run"], lambda row: row.verdict == "not run"),
        (
            ["--verdict", "close", "--verdict", "reproduced-with-a-correction"],
            lambda row: row.verdict in ("close", "reproduced, with a correction"),
        ),
        (
            ["--basis", "trained", "--paper", "mezo"],
            lambda row: row.basis == "trained" and row.paper == "mezo",
        ),
    ],
)
def test_claims_are_filtered(
    filters: list[str],
    passes: Callable[[ClaimRow], bool],
    ledger: list[ClaimRow],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # the shipped summary is faster to read than the records
    wanted = [row.id for row in ledger if passes(row)]
    assert main(["claims", "--json", *filters]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == wanted
    assert main(["claims", *filters]) == 0
    assert f"\n{len(wanted)} statements: " in capsys.readouterr().out


def test_claims_outside_a_clone_are_those_the_package_ships(
    ledger: list[ClaimRow],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = [row.as_dict() for row in ledger]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()  # of another project
    assert main(["claims", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(expected))
    assert main(["claim", "A4"]) == 0
    captured = capsys.readouterr()
    assert "around 1.2x" in captured.out
    assert f"zo-repro {__version__} was released with" in captured.err


def test_the_shipped_summary_is_that_of_the_committed_records(
    ledger: list[ClaimRow], tmp_path: Path
) -> None:
    path = tmp_path / "summary.json"
    write_summary(ROOT / "results", [row.as_dict() for row in ledger], path)
    assert path.read_bytes() == SUMMARY.read_bytes(), "run: repro report --readme README.md"


def test_open_prints_the_page_else_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)) or True)
    figure = tmp_path / "results/elasticzo_fig5/figures/fig5.png"
    page = tmp_path / "site/artifacts/elasticzo_fig5.html"
    where = ["--site", str(tmp_path / "site")]
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    assert main(["open", "elasticzo_fig5", *where]) == 1
    assert "write the site with: repro report --html" in capsys.readouterr().err
    for path in (figure, page):
        path.parent.mkdir(parents=True)
        path.touch()
        assert main(["open", "elasticzo_fig5", *where]) == 0
        assert capsys.readouterr().out == f"{path}\n"
    assert main(["open", "elasticzo_fig5", *where, "--results", str(tmp_path / "results")]) == 0
    assert opened == [figure.as_uri(), page.as_uri(), figure.as_uri()]
    capsys.readouterr()
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert main(["open", "elasticzo_fig5", *where]) == 0
    assert "No browser was found" in capsys.readouterr().err


def test_bash_completes_commands_artifacts_and_data_sets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for words, found in (
        ("repro cl", "claims claim"),
        ("repro run mezo_fig4", "mezo_fig4"),
        ("repro data path fashion", "fashion_mnist"),
        ("repro claims --pa", "--paper"),
    ):
        call = f"{script}\nCOMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}\n"
        done = subprocess.run(
            ["bash", "-c", f'{call}_shtab_repro; echo "${{COMPREPLY[@]}}"'],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert set(done.stdout.split()) == set(found.split())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_have_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "mezo_fig3" in script
    assert "--verdict" in script or "-l verdict" in script


def test_every_command_names_a_next_step() -> None:
    def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for each in action.choices.values():
                    yield from leaves(each)
                return
        yield parser

    steps = {parser.prog: parser.get_default("next_step") for parser in leaves(build_parser())}
    assert [prog for prog, step in steps.items() if not step] == ["repro completion"]
    commands = {prog.split()[1] for prog in steps}
    del steps["repro completion"]
    for prog, step in steps.items():
        named = re.findall(r"repro (\w+)", step)
        assert named, prog
        assert {*named} <= commands, prog


def test_notebook_of_an_artifact_without_records(tmp_path: Path) -> None:
    done = repro("notebooks", "mezo_fig3", "--results", str(tmp_path), "--out", str(tmp_path))
    assert done.returncode == 1
    assert "run `repro run mezo_fig3` first" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["claims", "report", "notebooks"])
def test_a_results_directory_that_is_not_there(command: str, tmp_path: Path) -> None:
    done = repro(command, "--results", str(tmp_path / "typo"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_run_without_a_slug_names_the_artifacts() -> None:
    done = repro("run")
    assert done.returncode == 2
    assert "repro list shows all" in done.stderr


def test_a_readme_that_is_not_there(tmp_path: Path) -> None:
    done = repro("report", "--results", str(tmp_path), "--readme", str(tmp_path / "absent.md"))
    assert done.returncode == 2
    assert "give --readme an existing file" in done.stderr
    (tmp_path / "latin.md").write_bytes(b"# Caf\xe9\n")
    done = repro("report", "--results", str(tmp_path), "--readme", str(tmp_path / "latin.md"))
    assert (done.returncode, "not UTF-8" in done.stderr) == (2, True)
    done = repro("report", "--results", str(tmp_path))
    assert (done.returncode, "holds no records" in done.stderr) == (2, True)
    (tmp_path / "unmarked.md").write_text("# A page\n")
    done = repro(
        "report", "--results", str(ROOT / "results"), "--readme", str(tmp_path / "unmarked.md")
    )
    assert (done.returncode, done.stdout) == (1, "")  # before anything is drawn
    assert "where the results belong" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["report", "--documents", "docs"], "--documents: only --html reads these"),
        (["report", "--notebooks", "notebooks"], "--notebooks: only --html reads these"),
        (["open", "--results", "results"], "--results: holds the figures of one artifact"),
    ],
)
def test_an_option_without_effect_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == UsageError.exit_code
    assert told in capsys.readouterr().err


def test_report_of_an_artifact_without_records(tmp_path: Path) -> None:
    done = repro("report", "mezo_fig3", "--results", str(tmp_path))
    assert done.returncode == 1
    assert "run `repro run mezo_fig3` first" in done.stderr


def test_output_that_nobody_reads_is_no_error() -> None:
    pipeline = f"{sys.executable} -m repro list | true"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", pipeline],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0
    assert "Error" not in done.stderr


def test_messages_that_nobody_reads_are_no_success() -> None:
    command = f"(sleep 0.2; {sys.executable} -m repro data verify mnist) 2>&1 | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False)
    assert done.returncode == 1


def test_options_before_the_artifact_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--profile", "smoke", "mezo_fig3"])
    assert "give the artifact before its options" in capsys.readouterr().err


def test_a_cache_that_is_no_directory_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "file"))
    assert main(["sweep", "elasticzo_table1", "--profile", "smoke", "--dry-run"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"repro: error: {tmp_path / 'file'}")
    assert "Not a directory" in shown
    assert len(shown.splitlines()) == 1


def test_former_names_of_artifacts_lead_to_the_present_one() -> None:
    for former, present in PRESENT_SLUGS.items():
        assert index.load(former).slug == index.load(present).slug == present


def test_output_that_the_terminal_cannot_show_is_replaced(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "repro", "claim", "A1"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    assert b"? 2.00" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_disk_under_the_output_is_one_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "repro", "claims"], stdout=full, stderr=subprocess.PIPE,
            cwd=tmp_path, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("repro: error: no space left")
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("engine")
def test_the_next_step_names_the_directory_of_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a {place}"
    assert main(["run", "elasticzo_fig4", "--profile", "smoke", "--out", str(out)]) == 0
    assert f"repro report elasticzo_fig4 --results '{out}' draws" in capsys.readouterr().err
    assert main(["sweep", "elasticzo_table1", "--profile", "smoke", "--dry-run"]) == 0
    assert "Next: the same command without --dry-run" in capsys.readouterr().err
