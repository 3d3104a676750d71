"""The command line as a user meets it: real processes, exit statuses, messages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro import __version__
from repro.cli import main
from repro.report.claims_table import ClaimRow


def repro(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "repro", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_list_names_the_artifacts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["mezo_fig3", "MeZO", "Fig."]


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    (row, *_) = json.loads(capsys.readouterr().out)
    assert set(row) == {"slug", "paper", "title", "claims", "profiles"}
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
        (["--context", "0"], "context length N = 0"),
        (["--context", "many"], "many"),
        (["--heads", "7"], "H = 7 do not divide"),
        (["--live-layers", "99"], "L' = 99"),
        (["--bytes-per-parameter", "nan"], "b = nan"),
        (["--device", "tpu"], "tpu"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_wrong_options_are_usage_errors(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = repro("run", "mezo_fig3", "--out", str(tmp_path / "out"), *arguments)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_cuda_where_there_is_none(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is there")
    done = repro("run", "mezo_fig3", "--device", "cuda", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "finds no CUDA device here; use --device cpu" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_results_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = repro("run", "mezo_fig3", "--profile", "smoke", "--out", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "--out DIR" in done.stderr


def test_a_corrupted_record_stops_claims_and_report(tmp_path: Path) -> None:
    directory = tmp_path / "results" / "mezo_fig3"
    directory.mkdir(parents=True)
    (directory / "quick-20260101T000000Z-nocommit.jsonl").write_text("{}\n")
    for command in ("claims", "report"):
        done = repro(command, "--results", "results", cwd=tmp_path)
        assert done.returncode == 1
        assert ".jsonl:1: not a record" in done.stderr


def test_claims_without_records_are_not_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["claims", "--json", "--results", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in rows} == {"not run"}
    assert {row["ours"] for row in rows} == {None}
    assert set(rows[0]) == {*ClaimRow.__dataclass_fields__, "difference", "schema"}
    assert {row["schema"] for row in rows} == {2}


def test_claim_tells_one_statement_and_suggests_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claim", "A4"]) == 0
    shown = capsys.readouterr().out
    assert "reproduced, with a correction" in shown
    assert "around 1.2x" in shown
    assert main(["claim", "A44"]) == 2
    assert "A4" in capsys.readouterr().err


def test_command_without_a_name_is_a_usage_error() -> None:
    assert repro().returncode == 2
    assert repro("nonsense").returncode == 2


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
    assert "give the artifact to run: mezo_fig3" in done.stderr


def test_a_readme_that_is_not_there(tmp_path: Path) -> None:
    done = repro("report", "--results", str(tmp_path), "--readme", str(tmp_path / "absent.md"))
    assert done.returncode == 2
    assert "give --readme an existing file" in done.stderr


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
    assert done.stderr == ""
