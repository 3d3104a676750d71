"""The ``repro`` command.

Exit status: 0 only if everything asked for was done, 1 if something failed, 2 for usage errors,
130 when interrupted. Nothing here imports torch: each command imports what it needs when it runs.
"""

import argparse
import os
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

COMMANDS = (
    listing, run, replay, report, claims, claim, notebooks, new, data, plan, engine, gpu,
)  # fmt: skip
"""Each module offers ``add_parser(subparsers)``, whose parser sets ``execute(args) -> int``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.execute(args)
        sys.stdout.flush()  # here, where a closed pipe is still caught
    except ReproError as error:
        sys.stderr.write(f"repro: error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("repro: interrupted; what was done is kept, the same command goes on\n")
        return 130
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
