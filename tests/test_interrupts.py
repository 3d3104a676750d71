"""Ctrl-C, SIGTERM and SIGKILL: one line, the right status, and no process left behind."""

import _imp
import _signal
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from faults.sessions import session
from repro.core import signals
from repro.core.processes import ROOT, run_command
from repro.core.signals import Terminated, interrupts_raised, uninterrupted
from repro.data.sources.packages import pip_command

ONE_LINE = "repro: interrupted. Progress is saved; run the same command to resume."
LONG = ["--profile", "smoke", "--methods", "full_bp", "cls1", "--seeds", "0", "--epochs", "5000"]
"""Of ``elasticzo_fig2``: two training runs, of a minute or more."""
PATIENCE_S = 60


def wait_until(holds: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@contextmanager
def begun(command: list[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A command in a session of its own, of which nothing is left at the end of the test."""
    with subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            for pid in session(process.pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.usefixtures("made_up_mnist")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_ended_run_says_one_line_and_leaves_no_process(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    """All its processes are sent the signal, as a terminal and a service manager do."""
    out, cells = tmp_path / "out", Path(os.environ["REPRO_CACHE_DIR"])
    command = [sys.executable, "-m", "repro", "run", "elasticzo_fig2", *LONG, "--out", str(out)]
    with begun(command) as run:
        wait_until(lambda: list(cells.glob("runs/*/*.pt")), "no epoch was trained")
        assert len(session(run.pid)) > 2  # a fork server and its forks
        os.killpg(run.pid, number)
        _, said = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == status
        wait_until(lambda: not session(run.pid), "a process outlives the run")
    lines = [line for line in said.splitlines() if not line.startswith("training: ")]
    assert lines == [ONE_LINE]
    assert [path.name for path in out.rglob("*") if path.is_file()] == []


EARLY_OR_LATE = """
import os, sys
from repro.__main__ import main
class Interrupting:
    def find_spec(self, name, path, target=None):
        if {early} and name == "repro.commands":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {words}
status = main()
os.kill(os.getpid(), {number})
sys.exit(status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("words", "line"), [(["data", "fetch", "mnist"], ONE_LINE), (["list"], "repro: interrupted.")]
)
def test_an_interrupt_is_one_line_at_import_and_nothing_when_all_is_done(
    number: signal.Signals, early: bool, words: list[str], line: str
) -> None:
    """It promises to resume only where progress is saved."""
    script = EARLY_OR_LATE.format(early=early, number=int(number), words=words)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (128 + number if early else 0)
    assert (done.stderr.splitlines() == [line]) == early
    assert bool(done.stdout) != early


def test_of_two_signals_in_a_pass_none_is_lost() -> None:
    ended: list[bool] = []

    def two_signals() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            ended.append(True)

    with interrupts_raised(), pytest.raises(Terminated) as raised:
        two_signals()
    assert ended
    assert isinstance(raised.value.__context__, KeyboardInterrupt)
    with uninterrupted():  # the default of SIGTERM raises nothing: it ends the process at once
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("change", range(4))
def test_handlers_are_given_back_if_a_signal_comes_while_they_change(
    number: signal.Signals, change: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = count()

    def changed(of: int, handler: Any) -> Any:
        before = _signal.signal(of, handler)
        if next(changes) == change:
            signal.raise_signal(number)
        return before

    def handlers() -> list[Any]:
        return [signal.getsignal(of) for of in (signal.SIGINT, signal.SIGTERM)]

    patched = SimpleNamespace(getsignal=_signal.getsignal, signal=changed)
    monkeypatch.setattr(signals, "_signal", patched)
    with interrupts_raised():
        mine = handlers()
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            pass
        assert handlers() == mine


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_waits_until_an_extension_module_is_initialised(
    number: signal.Signals, kind: type[KeyboardInterrupt], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    def initialise(_module: object) -> None:
        signal.raise_signal(number)
        time.sleep(0.1)  # the signal comes again, and again too early
        ended.append(True)

    def load() -> None:
        ExtensionFileLoader("some", "some.so").exec_module(ModuleType("some"))
        time.sleep(PATIENCE_S)

    monkeypatch.setattr(_imp, "exec_dynamic", initialise)
    with interrupts_raised(), pytest.raises(kind):
        load()
    assert ended


BUSY = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import test_interrupts as t
from repro.measurement.isolation import run_isolated
if __name__ == "__main__":
    list(run_isolated(t.say_who_and_compute, [{answer!r}], workers=1, preload=[]))
"""


def say_who_and_compute(answer: str) -> None:
    Path(answer).write_text(f"{os.getpid()}\n")
    sum(range(10**12))  # hours in one call into C, which no other thread interrupts


def test_a_worker_in_a_call_that_lets_no_thread_run_ends_with_a_killed_driver(
    tmp_path: Path,
) -> None:
    script, answer = tmp_path / "run.py", tmp_path / "worker"
    script.write_text(
        BUSY.format(root=str(ROOT), tests=str(Path(__file__).parent), answer=str(answer))
    )
    with begun([sys.executable, str(script)]) as driver:
        wait_until(lambda: answer.exists() and answer.read_text().endswith("\n"), "no worker")
        driver.kill()
        driver.wait()
        wait_until(lambda: not session(driver.pid), "a worker outlives its driver")


def test_a_fork_server_that_still_imports_ends_with_a_killed_driver(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'begun')!r}).touch()\nsum(range(10**12))\n"
    )
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os
            os.environ["PYTHONPATH"] = {str(tmp_path)!r}
            from repro.measurement.isolation import run_isolated
            if __name__ == "__main__":
                list(run_isolated(abs, [-1], workers=1, preload=["endless"]))
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with begun([sys.executable, str(script)], env=environment) as driver:
        wait_until((tmp_path / "begun").exists, "the fork server imports nothing")
        driver.kill()
        driver.wait()
        wait_until(lambda: not session(driver.pid), "the fork server outlives its driver")


def test_a_process_whose_parent_has_ended_already_ends_at_once() -> None:
    code = "from repro.core.processes import end_with_parent; end_with_parent(2**30)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode


def test_a_program_that_has_just_ended_does_not_hide_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(process: Any) -> None:
        process.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["true"])


def test_a_fork_server_that_another_program_began_serves_too(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            from repro.measurement.isolation import run_isolated
            if __name__ == "__main__":
                process = multiprocessing.get_context("forkserver").Process(target=print)
                process.start()
                process.join()
                print(list(run_isolated(abs, [-1], workers=1, preload=[])))
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[(-1, 1)]\n")


def test_an_interrupted_program_is_killed_with_all_that_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "who"
    script = f"sleep 600 & echo $! > {said}.part; mv {said}.part {said}; wait"

    def interrupted(_: Any) -> None:
        wait_until(said.exists, "the program did not begin")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", script])
    sleeping = Path("/proc", said.read_text().strip(), "stat")
    wait_until(lambda: not sleeping.exists() or " Z " in sleeping.read_text(), "it outlives")


HOSTILE = """
from pathlib import Path
Path({mark!r}).write_text(__file__)
"""
ISOLATED = """
import sys
sys.path.append({root!r})
from repro.measurement.isolation import run_isolated
from repro.core.units import format_bytes
if __name__ == "__main__":
    preload = ["repro.core.names", "repro.core.units"]
    print(list(run_isolated(format_bytes, [2000], workers=1, preload=preload)))
"""


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A directory with modules of well-known names, and a file that they write when imported."""
    place, mark = tmp_path / "hostile", tmp_path / "imported"
    text = HOSTILE.format(mark=str(mark))
    for name in ("repro", "repro/core", "repro/measurement", "pebble"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text(text)
    for name in ("pip", "numpy", "secrets", "zipfile"):
        (place / f"{name}.py").write_text(text)
    return place, mark


def test_workers_import_the_package_of_their_driver_and_nothing_of_the_directory(
    tmp_path: Path, hostile: tuple[Path, Path]
) -> None:
    place, mark = hostile
    (tmp_path / "script").mkdir()
    script = tmp_path / "script" / "run.py"
    script.write_text(ISOLATED.format(root=str(ROOT)))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=place, capture_output=True, text=True, check=False
    )
    assert not mark.exists(), mark.read_text()
    assert done.stdout == "[(2000, '2 kB')]\n", done.stderr


def test_pip_is_not_taken_from_the_directory(
    hostile: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: "there is a pip")
    python, *options, _, module = pip_command()
    assert module == "pip"
    place, mark = hostile
    subprocess.run([python, *options, "-c", "import numpy"], cwd=place, check=True)
    assert not mark.exists(), mark.read_text()


@pytest.mark.slow
def test_a_notebook_imports_nothing_of_the_directory(
    tmp_path: Path, hostile: tuple[Path, Path]
) -> None:
    place, mark = hostile
    runs = sorted((ROOT / "results" / "elasticzo_fig2").glob("*.jsonl"))
    assert runs
    script = tmp_path / "build.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from pathlib import Path
            sys.path.append({str(ROOT)!r})
            from repro.report.notebooks import build
            if __name__ == "__main__":
                runs = [Path(name) for name in sys.argv[2:]]
                [*build([("elasticzo_fig2", runs, Path(sys.argv[1]))])]
            """
        )
    )
    target = tmp_path / "made.ipynb"
    subprocess.run([sys.executable, script, target, *runs], cwd=place, check=True)
    assert not mark.exists(), mark.read_text()
    assert target.stat().st_size > 0
