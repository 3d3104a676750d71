"""Run programs that end with this process."""

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from repro.core.parent import end_with_parent


def run_command(
    command: Sequence[str],
    **options: Any,  # noqa: ANN401 - subprocess's options
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` as ``subprocess.run`` does, with text for its output.

    The command leads a process group. An interrupt while waiting kills the whole group, such as a
    build with its compilers. If this process is itself killed without warning, only the command
    ends with it.
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
