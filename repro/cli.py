"""The ``repro`` command.

Exit status: 0 if everything asked for was done, 1 if something failed, 2 for usage errors, 130
after Ctrl-C, 143 after SIGTERM. This module does not import torch: each command imports what it
needs when it runs.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from repro import __version__
from repro.commands import (
    claims,
    completion,
    data,
    engine,
    gpu,
    new,
    opening,
    plan,
    replay,
    report,
    run,
)
from repro.core.errors import ReproError
from repro.core.validation import unknown

COMMANDS = (
    claims, opening, plan, run, replay, report, data, engine, gpu, new, completion,
)  # fmt: skip
"""Each module offers ``add_parser(subparsers)``. Its parser sets ``execute(args) -> int`` and
``next_step``, what to try next, which may name fields of ``args`` in braces; empty for nothing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may have no sign for "≥"
    args = build_parser().parse_args(argv)
    try:
        status: int = args.execute(args)
        sys.stdout.flush()  # inside the try block, which catches a closed pipe
    except ReproError as error:
        sys.stderr.write(f"repro: error: {error}\n")
        return error.exit_code
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # else Python would fail again when it flushes the output at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # the reader of our output stopped reading, as `head` does
            return 0
        sys.stderr.write("repro: error: no space left on the device; free some and run again\n")
        return 1
    if status == 0 and args.next_step and not getattr(args, "json", False):
        sys.stderr.write(f"Next: {args.next_step.format_map(vars(args))}\n")
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="repro",
        description="Reproduce the figures and tables of the MeZO and ElasticZO papers, and plan "
        "what fits in a given memory.",
        epilog="Start with: repro list, repro claims, repro plan --budget 16GB. "
        "repro COMMAND --help explains one command.",
    )
    parser.add_argument("--version", action="version", version=f"zo-repro {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    _complete_help(parser)
    parser.set_defaults(root=parser)  # read by `repro completion` to write its script
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser without abbreviated options, which suggests the nearest choice."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - inherited
        # here, as argparse makes the parsers of commands by itself
        super().__init__(allow_abbrev=False, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - inherited
        if action.choices is None or value in action.choices:
            return
        kind = str(action.metavar or "value").lower()
        raise argparse.ArgumentError(
            # without one, argparse does not begin the message with "argument COMMAND:"
            action if action.option_strings else None,
            unknown(kind, str(value), map(str, action.choices), f"{self.prog} --help"),
        )


def _complete_help(parser: argparse.ArgumentParser) -> None:
    """Print help where no command is given, and describe each command at least by its summary."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        return

    def print_help(args: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes them
        parser.print_help()
        return 0

    parser.set_defaults(execute=print_help, next_step="")
    for listed in groups[0]._choices_actions:
        subparser, summary = groups[0].choices[listed.dest], str(listed.help)
        subparser.description = subparser.description or f"{summary[0].upper()}{summary[1:]}."
        _complete_help(subparser)
