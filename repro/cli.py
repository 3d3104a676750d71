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
from pathlib import Path
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
    parser = build_parser()
    args, unknown_words = parser.parse_known_args(argv)
    if unknown_words:
        parser.error(f"unrecognized arguments: {' '.join(unknown_words)}{args.if_unrecognized}")
    try:
        return _execute(args)
    except OSError as error:
        if error.errno == errno.EPIPE:
            return _unread()
        if error.errno == errno.ENOSPC:
            _discard_output()
            said = "no space left on the device; free some and run again"
        elif isinstance(error.filename, str | Path):
            said = f"{error.filename}: {error.strerror}"
        else:
            raise
        sys.stderr.write(f"repro: error: {said}\n")
        return 1


def _execute(args: argparse.Namespace) -> int:
    """Run the command, and print its error or what to try next."""
    try:
        status: int = args.execute(args)
        sys.stdout.flush()  # here, where a closed pipe is caught
    except ReproError as error:
        sys.stderr.write(f"repro: error: {error}\n")
        return error.exit_code
    if status == 0 and args.next_step and not getattr(args, "json", False):
        sys.stderr.write(f"Next: {args.next_step.format_map(vars(args))}\n")
    return status


def _unread() -> int:
    """Return the status if a reader of the output stopped reading, as ``head`` does.

    It is 0 if only results are lost, and 1 if messages are.
    """
    try:
        sys.stdout.flush()
        status = 1
    except OSError:
        status = 0
    _discard_output()
    return status


def _discard_output() -> None:
    """Send the rest of the output nowhere; else Python fails again when it flushes at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="repro",
        description="Reproduce the figures and tables of the MeZO and ElasticZO papers, and plan "
        "what fits in a given memory.",
        epilog="Start with: repro list, repro claims, repro plan --budget 16GB. "
        "repro COMMAND --help explains one command. Exit status: 0 done, 1 failed, 2 wrong usage, "
        "130 Ctrl-C, 143 SIGTERM.",
    )
    parser.add_argument("--version", action="version", version=f"zo-repro {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    _complete_help(parser)
    # root is read by `repro completion` to write its script
    parser.set_defaults(root=parser, if_unrecognized="")
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
