"""Run the package managers' own command-line clients."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from repro.data.base import SourceUnavailableError

_STANDARD_ERROR = 2


def run_client(command: Sequence[str], directory: Path) -> None:
    """Run ``command`` in ``directory``; its progress goes to standard error.

    Raises:
        SourceUnavailableError: the client is missing or failed; the message has its own errors.
    """
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands, no shell
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        msg = f"the client {command[0]} is not installed"
        raise SourceUnavailableError(msg) from error
    if done.returncode != 0:
        msg = f"{_name(command)} failed: {_errors(done.stderr)}"
        raise SourceUnavailableError(msg)


def _name(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:4]])


def _errors(output: str) -> str:
    """Keep the lines that clients mark as errors, or the last ones where none is marked."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("E:", "ERROR", "error", "cause"))]
    return " ".join(marked or lines[-3:]) or "without a message"
