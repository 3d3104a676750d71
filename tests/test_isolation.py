"""Workers run on the cores of their driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
