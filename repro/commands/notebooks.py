"""``repro notebooks``: generate and execute the results notebooks, or tell which are stale."""

import argparse
import sys
from pathlib import Path
from typing import Any

from repro.artifacts.index import SLUGS, load
from repro.core.paths import notebooks_dir, results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("notebooks", help="generate and execute the results notebooks")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="artifacts (default: all)")
    parser.add_argument(
        "--check", action="store_true", help="only say which are stale; status 1 if any is"
    )
    parser.add_argument(
        "--results", type=Path, default=results_dir(), metavar="DIR", help="where the records are"
    )
    parser.add_argument(
        "--out", type=Path, default=notebooks_dir(), metavar="DIR", help="where notebooks go"
    )
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Build the notebooks, or check them."""
    slugs = args.slugs or SLUGS
    for slug in slugs:
        load(slug)  # a wrong name is an error before anything is run
    from repro.report import notebooks
    from repro.report.runs import require_runs

    stale = 0
    for slug in slugs:
        runs, path = require_runs(args.results, slug), args.out / f"{slug}.ipynb"
        if not args.check:
            notebooks.build(slug, runs, path)
            sys.stdout.write(f"{path}\n")
        elif notebooks.is_stale(slug, path, runs):
            sys.stderr.write(f"{path} is missing, damaged, or older than its records or template\n")
            stale = 1
    return stale
