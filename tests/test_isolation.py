"""Processes of a run: none outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import test_isolation as t
from repro.measurement.isolation import run_isolated
if __name__ == "__main__":
    list(run_isolated(t.say_who_and_wait, [{answer!r}], workers=1, preload=[]))
"""


def say_who_and_wait(answer: str) -> None:
    Path(answer).write_text(f"{os.getpid()}\n")
    time.sleep(600)


@pytest.mark.slow
def test_a_worker_ends_with_a_killed_driver(tmp_path: Path) -> None:
    script, answer = tmp_path / "run.py", tmp_path / "worker"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), answer=str(answer)))
    with subprocess.Popen([sys.executable, str(script)]) as driver:
        while not (answer.exists() and answer.read_text().endswith("\n")):
            assert driver.poll() is None
            time.sleep(0.05)
        driver.kill()
    worker = int(answer.read_text())
    patience = time.monotonic() + 60
    try:
        while Path(f"/proc/{worker}").exists():
            assert time.monotonic() < patience, f"process {worker} outlives its driver"
            time.sleep(0.2)
    finally:
        if Path(f"/proc/{worker}").exists():
            os.kill(worker, signal.SIGKILL)


CORES = """
import os, sys
sys.path.insert(0, {tests!r})
import test_isolation as t
from repro.measurement.isolation import run_isolated
if __name__ == "__main__":
    os.sched_setaffinity(0, {{{core}}})
    print(sorted(run_isolated(t.own_cores, ["a", "b"], workers=2, preload=[])))
"""


def own_cores(_: str) -> list[int]:
    return sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen on Linux alone")
def test_workers_stay_on_the_cores_that_their_driver_is_kept_to(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    script = tmp_path / "run.py"
    script.write_text(CORES.format(tests=str(Path(__file__).parent), core=core))
    said = subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.PIPE)
    assert said.stdout.decode().strip() == f"[('a', [{core}]), ('b', [{core}])]"
