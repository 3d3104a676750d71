"""What a killed process was writing is removed by the next one, and nothing else is."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from repro.artifacts.elasticzo_table2 import ARTIFACT
from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.leftovers import (
    new_directory,
    remove_leftovers,
    temporary_directory,
    temporary_file,
)
from repro.execution.local import LocalExecutor
from repro.harness import run_artifact
from repro.measurement.environment import capture
from repro.measurement.records import RUN_FILE
from repro.site.publish import published

RUN = "custom-20260101T000000Z-nocommit.jsonl"


def process(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Begin a process that runs ``code``, and wait until it says something."""
    begun = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert begun.stdout is not None
    assert begun.stdout.readline() == "ready\n"
    return begun


def kill(begun: "subprocess.Popen[str]") -> None:
    with begun:
        begun.kill()
    assert begun.returncode == -signal.SIGKILL


WRITING = """
    import sys
    from pathlib import Path
    from repro.core import atomic

    def write(file):
        file.write(b"half")
        file.flush()
        print("ready", flush=True)
        sys.stdin.read()

    atomic.replace_by(Path(sys.argv[1]), write)
"""


def test_a_killed_writer_s_file_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    kill(process(WRITING, path))
    (leftover,) = tmp_path.iterdir()
    assert leftover.read_bytes() == b"half"
    atomic.replace(path, b"whole")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("state", b"whole")]


def test_a_living_writer_s_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    writer = process(WRITING, path)
    for leftover in tmp_path.iterdir():
        os.utime(leftover, (0, 0))  # however old it is
    atomic.replace(path, b"mine")
    assert len(list(tmp_path.iterdir())) == 2
    writer.communicate("")
    assert writer.returncode == 0
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("state", b"half")]


def test_a_link_keeps_its_place_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    target.write_bytes(b"old")
    link.symlink_to(target)
    atomic.replace(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    os.mkfifo(pipe)
    for path, kind in ((pipe, "a device or a pipe"), (tmp_path, "a directory")):
        with pytest.raises(ReproError, match=f"is {kind}; give a file"):
            atomic.replace(path, b"new")
    assert pipe.is_fifo()
    (loop := tmp_path / "loop").symlink_to(loop)
    with pytest.raises(ReproError, match="loop"):
        atomic.replace(loop, b"new")
    with pytest.raises(ReproError, match="File name too long; give a directory"):
        atomic.replace(tmp_path / ("x" * 300), b"new")


def test_only_names_of_temporary_files_are_swept(tmp_path: Path) -> None:
    mark, own = "repro-tmp-abcd1234", f".{RUN}.previous"  # a user's, as long as a random suffix
    kept = [RUN, f".{RUN}", f".{RUN}.short", f"{RUN}.{mark}", f".notes.jsonl.{mark}", own]
    for name in (*kept, f".{RUN}.{mark}"):
        (tmp_path / name).write_text("")
    (linked := tmp_path / f".{RUN}.repro-tmp-linked12").symlink_to(tmp_path / RUN)
    remove_leftovers(tmp_path, RUN_FILE.pattern)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, linked.name])
    remove_leftovers(tmp_path / "missing", ".*")


def test_a_temporary_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.core import leftovers

    lock, swept = leftovers.fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        if not swept:
            (victim,) = tmp_path.iterdir()
            swept.append(victim)
            victim.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(leftovers.fcntl, "flock", late)
    with temporary_file(tmp_path / "x") as (_, made):
        assert made.exists()
        assert made not in swept
    assert list(tmp_path.iterdir()) == []


def test_a_directory_swept_before_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def swept_once(**where: Any) -> str:
        made.append(make(**where))
        if len(made) == 1:
            remove_leftovers(tmp_path, "target")  # another process takes it for a leftover
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_once)
    with temporary_directory(tmp_path / "target") as directory:
        assert directory.is_dir()
        assert [*map(Path, made)] == [Path(made[0]), directory]


def test_without_locks_a_leftover_is_known_by_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.core import leftovers

    def without(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(leftovers.fcntl, "flock", without)
    young, old = (tmp_path / f".x.repro-tmp-abcd{number}" for number in (1234, 5678))
    for path in (young, old):
        path.write_text("")
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path, "x")
    assert list(tmp_path.iterdir()) == [young]
    atomic.replace(tmp_path / "x", b"1")  # writes all the same
    assert (tmp_path / "x").read_bytes() == b"1"


def test_a_directory_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from repro.core.leftovers import temporary_directory
        with temporary_directory(Path(sys.argv[1])) as directory:
            (directory / "deep").mkdir()
            (directory / "deep" / "file").write_text("x")
            print("ready", flush=True)
            sys.stdin.read()
    """
    target = tmp_path / "site"
    living, killed = process(code, target), process(code, target)
    kill(killed)
    assert len(list(tmp_path.iterdir())) == 2
    with temporary_directory(target):
        assert len(list(tmp_path.iterdir())) == 2  # this one, and that of the living process
    living.communicate("")
    assert list(tmp_path.iterdir()) == []


def test_a_new_directory_replaces_the_old_one_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"

    def write(name: str, error: Exception | None = None) -> None:
        with new_directory(target) as whole:
            (whole / name).touch()
            if error is not None:
                raise error

    write("first")
    with pytest.raises(OSError, match="a full disk"):
        write("second", OSError("a full disk"))
    killed = process(
        """
        import sys
        from pathlib import Path
        from repro.core.leftovers import new_directory
        with new_directory(Path(sys.argv[1])) as whole:
            (whole / "half").touch()
            print("ready", flush=True)
            sys.stdin.read()
        """,
        target,
    )
    kill(killed)
    assert [path.name for path in target.iterdir()] == ["first"]
    write("third")
    assert [path.name for path in target.iterdir()] == ["third"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_site_that_was_moved_away_by_a_killed_process_comes_back(tmp_path: Path) -> None:
    target = tmp_path / "site"
    with published(target) as directory:
        (directory / "index.html").write_text("first")
    killed = process(
        """
        import sys
        from pathlib import Path
        from repro.site import publish
        real = Path.rename
        def rename(self, other):
            if self.name == "new":
                print("ready", flush=True)
                sys.stdin.read()
            return real(self, other)
        Path.rename = rename
        with publish.published(Path(sys.argv[1])) as directory:
            (directory / "index.html").write_text("second")
        """,
        target,
    )
    assert not target.exists()
    kill(killed)

    def fail() -> None:
        with published(target):
            raise ReproError("a reason")

    with pytest.raises(ReproError, match="a reason"):
        fail()
    assert (target / "index.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.usefixtures("made_up_mnist")
def test_the_next_run_removes_what_a_killed_one_left_beside_the_records(tmp_path: Path) -> None:
    directory = tmp_path / "out" / ARTIFACT.slug
    kill(process(WRITING, directory / RUN))
    left = [re.sub(r"\w{8}$", "", path.name) for path in directory.iterdir()]
    assert left == [f".{RUN}.repro-tmp-"]

    class Nothing:
        """Runs no cell."""

        environment = capture()

        def run(self, _: Any) -> Any:
            return iter(())

    nothing: LocalExecutor = Nothing()  # type: ignore[assignment]
    config = ARTIFACT.profiles["smoke"]
    with pytest.raises(ReproError, match="without records"):
        run_artifact(ARTIFACT, "smoke", config, tmp_path / "out", nothing, again=True)
    assert not directory.exists()
