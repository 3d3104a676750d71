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
