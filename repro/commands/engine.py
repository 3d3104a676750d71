"""``repro engine``: build the on-device C++ engine and show its properties."""

import argparse
import sys
from typing import Any

from repro.ondevice.build import build, load


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "engine", help="build the C++ engine that --engine native trains with, or show where it is"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    action = actions.add_parser("build", help="compile the engine into the cache")
    action.set_defaults(
        execute=execute_build, next_step="repro engine info shows the instruction sets it uses"
    )
    action = actions.add_parser(
        "info", help="print the path of the engine and the instruction sets of this machine"
    )
    action.set_defaults(
        execute=execute_info,
        next_step="repro run elasticzo_table1 --engine native trains with the engine",
    )


def execute_build(args: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes them
    """Build the engine unless it exists, and print its path."""
    sys.stdout.write(f"{build()}\n")
    return 0


def execute_info(args: argparse.Namespace) -> int:  # noqa: ARG001
    """Print the path of the engine and its instruction sets, fastest first."""
    engine = load()
    sys.stdout.write(f"{engine.__file__}\n{' '.join(engine.instruction_sets())}\n")
    return 0
