"""Run the package managers' own command-line clients."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from repro.core.processes import run_command
from repro.data.base import SourceUnavailableError

_STANDARD_ERROR = 2
_ERROR = re.compile(r"E: |ERROR|error|cause|\w*Error: ")
"""First words of error lines in apt, pip, uv and a Python traceback."""


def run_client(command: Sequence[str], directory: Path) -> None:
    """Run ``command`` in ``directory``; its progress goes to standard error.

    Raises:
        SourceUnavailableError: the client is missing or failed; the message quotes its errors.
    """
    try:
        done = run_command(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        msg = f"the client {command[0]} is not installed"
        raise SourceUnavailableError(msg) from error
    if done.returncode != 0:
        name = " ".join([Path(command[0]).name, *command[1:4]])
        msg = f"{name} failed: {_errors(done.stderr)}"
        raise SourceUnavailableError(msg)


def _errors(output: str) -> str:
    """Keep the lines marked as errors and the reason of pip's last retry, else the last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if _ERROR.match(line)]
    retries = [line for line in lines if line.startswith("WARNING: Retrying")]
    return " ".join([*retries[-1:], *marked] or lines[-3:]) or "without a message"
