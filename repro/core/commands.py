"""Run programs that end with this process."""

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from repro.core.parent import end_with_parent


def run_command(
    command: Sequence[str],
    **options: Any,  # noqa: ANN401 - those of subprocess
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` as ``subprocess.run`` does, with text for its output.

    The command leads a process group. If waiting for it is interrupted, the whole group is killed:
    a build's compilers as well as the build. Killed without a warning, this process takes with it
    the command alone.
    """
    with subprocess.Popen(  # noqa: S603 - the callers' commands are fixed
        command,
        process_group=0,
        preexec_fn=end_with_parent,
        text=True,
        errors="replace",
        **options,
    ) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
