"""``repro claim ID``: one published statement in full."""

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

from repro.core.errors import UsageError
from repro.core.paths import results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("claim", help="tell one statement in full, with its quotation")
    parser.add_argument("id", metavar="ID", help="as in the first column of repro claims")
    parser.add_argument(
        "--results", type=Path, default=results_dir(), metavar="DIR", help="where the records are"
    )
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the statement, our values and the verdict."""
    from repro.report.claims_table import claim_rows
    from repro.report.terminal import claim_text

    rows = {row.id: row for row in claim_rows(args.results)}
    if args.id not in rows:
        near = difflib.get_close_matches(args.id, rows, n=3, cutoff=0.3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see repro claims"
        msg = f"no statement {args.id!r}; {hint}"
        raise UsageError(msg)
    sys.stdout.write(claim_text(rows[args.id]))
    return 0
