"""``repro list``: the artifacts there are."""

import argparse
import json
import sys
from typing import Any

from repro.artifacts.index import SLUGS, load


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("list", help="list the artifacts")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print one line, or one JSON object, for each artifact."""
    artifacts = [load(slug) for slug in SLUGS]
    if args.json:
        rows = [
            {
                "slug": artifact.slug,
                "paper": artifact.paper,
                "title": artifact.title,
                "claims": list(artifact.claims),
                "profiles": list(artifact.profiles),
            }
            for artifact in artifacts
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    width = max(len(slug) for slug in SLUGS)
    for artifact in artifacts:
        sys.stdout.write(f"{artifact.slug:<{width}}  {artifact.title}\n")
    return 0
