"""A full disk, read-only and vanishing directories: one error, and nothing half-written."""

import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.commands import COMMANDS, TABLE1, prepared, records, tree
from faults.sessions import begun, leftovers, orphans

pytestmark = pytest.mark.slow

TRAINING = ["run", "elasticzo_table1", *TABLE1, "--precisions", "fp32"]
FETCH = ["data", "fetch", "yesno-facts"]


def done(arguments: list[str], environment: dict[str, str], **options: Any) -> tuple[int, str]:
    with begun(arguments, environment, **options) as process:
        _, said = process.communicate(timeout=300)
        assert not orphans(process.pid)
    return process.returncode, said


def limited(size: int) -> Callable[[], None]:
    """Return what lets a process write files of at most so many bytes, as a full disk does.

    A full disk is an error; this limit is a signal, which Python ignores, and then one, too.
    """
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def errors(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("repro: error: ")]


def test_a_fetch_onto_a_full_disk_keeps_nothing(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    before = tree(tmp_path / "data")
    status, said = done(FETCH, environment, preexec_fn=limited(100_000))
    assert status == 1
    assert "Traceback" not in said
    (error,) = errors(said)
    assert "cannot keep yesno-facts" in error
    assert "REPRO_DATA_DIR" in error
    after = tree(tmp_path / "data")
    assert {n: h for n, h in after.items() if ".locks" not in n} == before
    assert done(FETCH, environment)[0] == 0  # with room it is fetched


def test_a_run_onto_a_full_disk_is_completed_when_there_is_room(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    arguments = [*TRAINING, "--out", str(tmp_path / "out")]
    status, said = done(arguments, environment, preexec_fn=limited(50_000))
    assert status == 1
    assert "Traceback" not in said
    assert "cannot write to " in said
    assert not list(tmp_path.glob("out/*/*"))
    assert leftovers(tmp_path) == []
    assert done(arguments, environment)[0] == 0
    assert len(records(tmp_path / "out")) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
@pytest.mark.parametrize("what", ["out", "cache"])
def test_a_read_only_directory_is_told_before_any_work(what: str, tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    place = tmp_path / what
    place.mkdir()
    place.chmod(0o500)
    begin = time.monotonic()
    status, said = done([*TRAINING, "--out", str(tmp_path / "out")], environment)
    assert status == 1
    assert len(errors(said)) == 1
    assert str(place) in said
    assert time.monotonic() - begin < 120


def test_a_path_through_a_file_is_told(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    (tmp_path / "file").write_text("")
    status, said = done([*TRAINING, "--out", str(tmp_path / "file" / "out")], environment)
    assert status == 1
    assert len(errors(said)) == 1
    assert "Not a directory" in said or "File exists" in said


def test_directories_that_vanish_in_the_middle_lose_no_result(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    out, cache = tmp_path / "out", tmp_path / "cache"
    arguments = [*TRAINING, "--epochs", "60", "--out", str(out)]
    with begun(arguments, environment) as process:
        while not list(cache.glob("runs/*/*.pt")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        shutil.rmtree(out)
        shutil.rmtree(cache, ignore_errors=True)
        _, said = process.communicate(timeout=300)
    assert "Traceback" not in said
    if process.returncode != 0:  # one error, and then the same command does it
        assert len(errors(said)) == 1
        assert done(arguments, environment)[0] == 0
    assert len(records(out)) == 4


def test_a_report_without_its_records_is_one_error(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    command = COMMANDS["report"]
    arguments = command.arguments(tmp_path)
    shutil.rmtree(tmp_path / "results")
    status, said = done([*arguments, "elasticzo_fig2"], environment)
    assert status == 2
    assert len(errors(said)) == 1
