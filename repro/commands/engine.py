"""``repro engine``: the on-device engine, which is compiled on demand."""

import argparse
import sys
from typing import Any

from repro.ondevice.build import build, load


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("engine", help="build the on-device engine, or tell about it")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = actions.add_parser("build", help="compile the engine into the cache")
    action.set_defaults(execute=execute_build)
    action = actions.add_parser("info", help="where the engine is and what this machine runs")
    action.set_defaults(execute=execute_info)


def execute_build(args: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes them
    """Build the engine unless it is there; print where it is."""
    sys.stdout.write(f"{build()}\n")
    return 0


def execute_info(args: argparse.Namespace) -> int:  # noqa: ARG001
    """Print the engine's path and its instruction sets, best first."""
    engine = load()
    sys.stdout.write(f"{engine.__file__}\n{' '.join(engine.instruction_sets())}\n")
    return 0
