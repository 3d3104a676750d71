"""Child processes: their end with their parent, and their environment."""

import contextlib
import ctypes
import os
import signal
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import repro

ROOT = Path(repro.__file__).resolve().parent.parent
"""The directory on the import path in which this process found the package."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None
"""The C library, opened here since a process just forked should open nothing."""


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; works on Linux only.

    A process in the middle of a long call into C, such as an import of PyTorch, cannot see that its
    parent is gone, and would keep running for seconds. ``parent`` is the number of that process,
    which may have ended already.
    """
    if _LIBRARY is None:
        return
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


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
        preexec_fn=partial(end_with_parent, os.getpid()),
        text=True,
        errors="replace",
        **options,
    ) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@contextmanager
def environment_set(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def same_package() -> dict[str, str]:
    """Return variables that make a child Python import the same package as this process.

    ``python -c`` and ``python -m`` look for modules in the current directory first, so a command
    run in a directory with another ``repro`` would run that code. Children inherit the interpreter
    options of this process: under -E they would ignore these variables.
    """
    safe = {"PYTHONSAFEPATH": "1"}
    if str(ROOT) in (*site.getsitepackages(), site.getusersitepackages()):
        return safe
    given = os.environ.get("PYTHONPATH")
    return safe | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [given])])}
