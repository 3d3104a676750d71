"""Run the command line, as ``repro`` or with ``python -m repro``."""

import signal
import sys

from repro.core.signals import Terminated, interrupts_raised


def main() -> int:
    """Run ``repro`` and return its exit status, 130 after Ctrl-C and 143 after SIGTERM.

    An interrupt prints one line, even while modules are still being imported. An interrupt that
    arrives after the command has finished does not change the exit status.
    """
    try:
        with interrupts_raised():
            status = _run()
    except KeyboardInterrupt as interrupt:
        exec("")  # noqa: S102 - else CPython may end by SIGINT, if it came while a string was run
        # a plan or a report begins again
        saves = sys.argv[1:2] in (["run"], ["sweep"], ["gpu"]) or sys.argv[1:3] == ["data", "fetch"]
        resumes = " Progress is saved; run the same command to resume." if saves else ""
        sys.stderr.write(f"repro: interrupted.{resumes}\n")
        status = 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return status


def _run() -> int:
    """Run the command; if a package is missing, name the extra that installs it."""
    try:
        from repro.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "repro"):
            raise
        sys.stderr.write(
            f"repro: error: {package} is not installed, and this command needs it: "
            "in the clone, pip install '.[suite]'; '.[plan]' is enough for `repro plan`, `repro "
            "list` and `repro claims`, and the methods need PyTorch alone\n"
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
