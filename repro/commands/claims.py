"""``repro claims`` and ``repro claim ID``: the published statements, our values and verdicts."""

import argparse
import json
import sys
from typing import Any

from repro.artifacts.index import load
from repro.claims.verdict import VERDICTS
from repro.commands.options import add_results
from repro.core.errors import UsageError
from repro.core.validation import unknown

_BASES = ("equations", "simulated", "measured", "engine", "timed", "trained")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the two commands to the parser."""
    parser = subparsers.add_parser(
        "claims",
        help="list the published statements with our values and verdicts",
        description="List the published statements with our values and verdicts, one a line. "
        "A statement must pass all given filters.",
    )
    parser.add_argument("--paper", choices=("mezo", "elasticzo"), metavar="PAPER",
                        help="only this paper: mezo or elasticzo")  # fmt: skip
    parser.add_argument("--artifact", metavar="SLUG", help="only this figure or table")
    parser.add_argument(
        "--verdict",
        nargs="+",
        action="append",
        metavar="VERDICT",
        help=f"only this verdict; give the option again for another: {'; '.join(VERDICTS)}",
    )
    parser.add_argument(
        "--basis",
        choices=_BASES,
        metavar="BASIS",
        help=f"only statements about this basis: {', '.join(_BASES)}",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    add_results(parser)
    parser.set_defaults(
        execute=list_claims,
        next_step="repro claim ID shows one statement in full, with its quotation",
    )
    parser = subparsers.add_parser(
        "claim",
        help="show one statement in full: quotation, our value, verdict and its reason",
    )
    parser.add_argument("id", metavar="ID", help="identifier, as in the first column of `claims`")
    add_results(parser)
    parser.set_defaults(execute=show_claim, next_step="repro claims lists all statements")


def list_claims(args: argparse.Namespace) -> int:
    """Print the statements that pass the filters.

    Raises:
        UsageError: a filter names no artifact or no verdict.
    """
    if args.artifact is not None:
        load(args.artifact)  # raises where there is none
    verdicts = [_verdict(" ".join(words)) for words in args.verdict or ()]
    from repro.report.ledger import read_ledger
    from repro.report.terminal import claims_text

    ledger = read_ledger(args.results)
    rows = [
        row
        for row in ledger.rows
        if args.paper in (None, row.paper)
        and args.artifact in (None, row.artifact)
        and args.basis in (None, row.basis)
        and (not verdicts or row.verdict in verdicts)
    ]
    if args.json:
        sys.stdout.write(json.dumps([row.as_dict() for row in rows], indent=2) + "\n")
    else:
        sys.stdout.write(claims_text(rows))
        sys.stderr.write(ledger.note)
    return 0


def show_claim(args: argparse.Namespace) -> int:
    """Print one statement, our values and the verdict."""
    from repro.report.ledger import read_ledger
    from repro.report.terminal import claim_text

    ledger = read_ledger(args.results)
    rows = {row.id: row for row in ledger.rows}
    if args.id not in rows:
        raise UsageError(unknown("statement", args.id, rows, "repro claims"))
    sys.stdout.write(claim_text(rows[args.id]))
    sys.stderr.write(ledger.note)
    return 0


def _verdict(text: str) -> str:
    """Return the verdict that ``text`` names, with hyphens or spaces and with or without commas."""
    plain = {name.replace(",", ""): name for name in VERDICTS}
    found = plain.get(text.lower().replace(",", "").replace("-", " "))
    if found is None:
        raise UsageError(unknown("verdict", text, VERDICTS, "repro claims --help"))
    return found
