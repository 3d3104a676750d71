"""``repro claim ID``: one published statement in full."""

import argparse
import sys
from typing import Any

from repro.commands.options import add_results
from repro.core.errors import UsageError
from repro.core.suggestions import unknown


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "claim",
        help="show one statement in full: quotation, our value, verdict and its reason",
    )
    parser.add_argument("id", metavar="ID", help="identifier, as in the first column of `claims`")
    add_results(parser)
    parser.set_defaults(execute=execute, next_step="repro claims lists all statements")


def execute(args: argparse.Namespace) -> int:
    """Print the statement, our values and the verdict."""
    from repro.report.ledger import read_ledger
    from repro.report.terminal import claim_text

    ledger = read_ledger(args.results)
    rows = {row.id: row for row in ledger.rows}
    if args.id not in rows:
        raise UsageError(unknown("statement", args.id, rows, "repro claims"))
    sys.stdout.write(claim_text(rows[args.id]))
    sys.stderr.write(ledger.note)
    return 0
