"""``repro list``: the artifacts with their paper, cost and verdicts."""

import argparse
import json
import sys
from collections import Counter
from typing import Any

from repro.artifacts.index import ARTIFACTS, SLUGS
from repro.claims.verdict import VERDICTS
from repro.core.units import format_seconds


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "list", help="list the artifacts: paper, recorded time, verdicts, title"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.set_defaults(
        execute=execute, next_step="repro run SLUG --profile smoke runs one in seconds"
    )


def execute(args: argparse.Namespace) -> int:
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
            "claims": list(artifact.claims),
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
        title = row["title"].partition(": ")[2] or row["title"]
        counts = "; ".join(f"{count} {name}" for name, count in row["verdicts"].items())
        sys.stdout.write(
            f"{row['slug']:<{width}}  {row['paper']:<9}  {time:>6}  {title}\n"
            f"{'':<{width + 21}}{counts or 'no statement of its own'}\n"
        )
    total = sum((counts for counts in verdicts.values()), Counter[str]())
    counts = "; ".join(f"{total[name]} {name}" for name in VERDICTS if total[name])
    sys.stdout.write(
        f"{total.total()} statements: {counts}\n"
        "time: compute time in the committed records, on the machines that they name; "
        "- where none is recorded\n"
    )
    return 0
