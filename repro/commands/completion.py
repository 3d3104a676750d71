"""``repro completion SHELL``: a script that completes the command line."""

import argparse
import sys
from typing import Any

from repro.artifacts.index import SLUGS
from repro.core.errors import ReproError
from repro.data.catalog import MODULES

SHELLS = ("bash", "zsh", "fish")
_NAMES = {"SLUG": SLUGS, "NAME": tuple(MODULES)}
"""The words that complete an argument, by its metavar."""


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes commands, options and names in your shell",
        description="Print a script that completes the command line. "
        'bash: eval "$(repro completion bash)" in ~/.bashrc. '
        "zsh: repro completion zsh > ~/.zfunc/_repro, in a directory of $fpath. "
        "fish: repro completion fish > ~/.config/fish/completions/repro.fish.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(execute=execute, next_step="")


def execute(args: argparse.Namespace) -> int:
    """Print the script.

    Raises:
        ReproError: the package shtab, which writes it, is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise ReproError("completion needs the package shtab; run: pip install shtab") from error
    _complete_names(args.root)
    sys.stdout.write(shtab.complete(args.root, args.shell) + "\n")
    return 0


def _complete_names(parser: argparse.ArgumentParser) -> None:
    """Give name arguments their choices, which the commands check themselves."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                _complete_names(subparser)
        elif isinstance(action.metavar, str) and not action.option_strings:
            action.choices = _NAMES.get(action.metavar, action.choices)
