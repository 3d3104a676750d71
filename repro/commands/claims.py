"""``repro claims``: every published claim with our value and verdict."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from repro.core.paths import results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("claims", help="show every claim with our value and verdict")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.add_argument(
        "--results", type=Path, default=results_dir(), metavar="DIR", help="where the records are"
    )
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the claims."""
    from repro.report.claims_table import claim_rows
    from repro.report.terminal import claims_text

    rows = claim_rows(args.results)
    if args.json:
        sys.stdout.write(json.dumps([row.as_dict() for row in rows], indent=2) + "\n")
    else:
        sys.stdout.write(claims_text(rows))
    return 0
