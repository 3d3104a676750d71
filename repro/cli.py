"""The ``repro`` command.

Exit status: 0 only if everything asked for was done, 1 if something failed, 2 for usage errors,
130 after Ctrl-C, 143 after SIGTERM. Nothing here imports torch: each command imports what it needs
when it runs.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from repro import __version__
from repro.commands import (
    claim,
    claims,
    data,
    engine,
    gpu,
    listing,
    new,
    notebooks,
    plan,
    replay,
    report,
    run,
)
from repro.core.errors import ReproError
from repro.core.termination import Terminated, termination_raised

COMMANDS = (
    listing, run, replay, report, claims, claim, notebooks, new, data, plan, engine, gpu,
)  # fmt: skip
"""Each module offers ``add_parser(subparsers)``, whose parser sets ``execute(args) -> int``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    args = _parser().parse_args(argv)
    try:
        with termination_raised():
            status: int = args.execute(args)
            sys.stdout.flush()  # here, where a closed pipe is still caught
    except ReproError as error:
        sys.stderr.write(f"repro: error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        exec("")  # noqa: S102 - else CPython may end by SIGINT, if it came while a string was run
        sys.stderr.write("repro: interrupted. Progress is saved; run the same command to resume.\n")
        return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="repro",
        description="Reproduce the figures and tables of the MeZO and ElasticZO papers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"zo-repro {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser
