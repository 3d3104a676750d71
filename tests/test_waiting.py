import subprocess
import sys
import time
from pathlib import Path

import pytest

from waiting import wait_while_it_gets_on

WRITING = """
import sys, time
for number in range(8):
    time.sleep(0.5)
    open(sys.argv[1] + "/state", "a").write("x")
"""


def begin(code: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True)


def test_a_process_that_gets_on_may_take_longer_than_the_limit(tmp_path: Path) -> None:
    begun = time.monotonic()
    assert wait_while_it_gets_on(begin(WRITING, tmp_path), tmp_path, stalled_s=3) == 0
    assert time.monotonic() - begun > 3.5


def test_a_process_that_gets_on_no_longer_is_killed(tmp_path: Path) -> None:
    process = begin("import time; time.sleep(600)")
    with pytest.raises(TimeoutError, match="nothing was written below"):
        wait_while_it_gets_on(process, tmp_path, stalled_s=0.5)
    assert process.poll() is not None
