"""``repro list``, ``repro claims`` and ``repro claim ID``: artifacts, statements and verdicts."""

import argparse
import json
import sys
from collections import Counter
from typing import Any

from repro.artifacts.index import ARTIFACTS, SLUGS, load
from repro.claims.index import CLAIMS
from repro.claims.verdict import VERDICTS
from repro.commands.options import add_results
from repro.core.errors import UsageError
from repro.core.names import PAPERS
from repro.core.units import format_seconds
from repro.core.validation import unknown

_BASES = ("equations", "measured", "trained", "timed")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the three commands to the parser."""
    parser = subparsers.add_parser(
        "list",
        help="list the artifacts (figures, tables, experiments) with paper, time, verdicts, title",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.set_defaults(
        execute=list_artifacts, next_step="repro run SLUG --profile smoke runs one in seconds"
    )
    parser = subparsers.add_parser(
        "claims",
        help="list the published statements with our values and verdicts",
        description="List the published statements with our values and verdicts, one a line. "
        "A statement must pass all given filters.",
    )
    parser.add_argument("--paper", choices=PAPERS, metavar="PAPER",
                        help=f"only this paper: {' or '.join(PAPERS)}")  # fmt: skip
    parser.add_argument("--artifact", metavar="SLUG", help="only this figure or table")
    # a verdict has up to four words; so it can be given without quotes
    parser.add_argument(
        "--verdict",
        nargs="+",
        action="append",
        metavar="WORD",
        help="only this verdict, such as --verdict not run; repeat the option for several: "
        f"{'; '.join(VERDICTS)}",
    )
    parser.add_argument(
        "--basis",
        choices=_BASES,
        metavar="BASIS",
        help=f"only statements with this basis: {', '.join(_BASES)}",
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


def list_artifacts(args: argparse.Namespace) -> int:
    """Print two lines, or one JSON object, for each artifact."""
    from repro.report.summary import read_summary

    summary = read_summary()
    verdicts = {slug: Counter[str]() for slug in SLUGS}
    for row in summary.claims:
        verdicts[row["artifact"]][row["verdict"]] += 1
    rows: list[dict[str, Any]] = [
        {
            "slug": slug,
            "paper": artifact.paper,
            "title": artifact.title,
            "claims": [claim for claim in artifact.claims if not CLAIMS[claim].same_as],
            "profiles": list(artifact.profiles),
            "recorded_seconds": summary.recorded_seconds.get(slug),
            "verdicts": {name: verdicts[slug][name] for name in VERDICTS if verdicts[slug][name]},
        }
        for slug, artifact in ARTIFACTS.items()
    ]
    if args.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    width = max(len(slug) for slug in SLUGS)
    sys.stdout.write(f"{'artifact':<{width}}  {'paper':<9}  {'time':>6}  what it reproduces\n")
    for row in rows:
        seconds = row["recorded_seconds"]
        time = "-" if seconds is None else format_seconds(seconds)
        counts = "; ".join(f"{count} {name}" for name, count in row["verdicts"].items())
        if not counts:
            counts = "no statement of its own"
            if row["claims"]:
                counts = f"statements without a verdict in the summary: {', '.join(row['claims'])}"
        sys.stdout.write(
            f"{row['slug']:<{width}}  {row['paper']:<9}  {time:>6}  {row['title']}\n"
            f"{'':<{width + 21}}{counts}\n"
        )
    total = sum((counts for counts in verdicts.values()), Counter[str]())
    counts = "; ".join(f"{total[name]} {name}" for name in VERDICTS if total[name])
    sys.stdout.write(
        f"{total.total()} statements: {counts}\n"
        "time: compute time in the committed records, on the machines that they name; "
        "- where none is recorded\n"
    )
    return 0


def list_claims(args: argparse.Namespace) -> int:
    """Print the statements that pass the filters.

    Raises:
        UsageError: a filter names no artifact or no verdict.
    """
    # by its present name; raises where there is none
    slug = None if args.artifact is None else load(args.artifact).slug
    verdicts = [_verdict(" ".join(words)) for words in args.verdict or ()]
    from repro.report.claims_table import read_ledger
    from repro.report.terminal import claims_text

    ledger = read_ledger(args.results)
    rows = [
        row
        for row in ledger.rows
        if args.paper in (None, row.paper)
        and slug in (None, row.artifact)
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
    from repro.report.claims_table import read_ledger
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
