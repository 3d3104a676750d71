"""``repro notebooks``: generate and execute the results notebooks, or check them."""

import argparse
import sys
from pathlib import Path
from typing import Any

from repro.artifacts.index import SLUGS, load
from repro.commands.options import add_results
from repro.core.paths import notebooks_dir, results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser("notebooks", help="generate and execute the results notebooks")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="artifacts (default: all)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="list outdated notebooks and write none; status 1 if there is one",
    )
    add_results(parser, results_dir())
    parser.add_argument(
        "--out",
        type=Path,
        default=notebooks_dir(),
        metavar="DIR",
        help="directory of the notebooks (default: notebooks)",
    )
    parser.set_defaults(
        execute=execute, next_step="repro report --html site shows them on the site"
    )


def execute(args: argparse.Namespace) -> int:
    """Build the notebooks, or check them."""
    slugs = args.slugs or SLUGS
    for slug in slugs:
        load(slug)  # reports a wrong name before any notebook runs
    from repro.report import notebooks
    from repro.report.runs import require_runs

    stale = 0
    for slug in slugs:
        runs, path = require_runs(args.results, slug), args.out / f"{slug}.ipynb"
        if not args.check:
            notebooks.build(slug, runs, path)
            sys.stdout.write(f"{path}\n")
        elif notebooks.is_stale(slug, path, runs):
            sys.stderr.write(f"{path} is out of date; run: repro notebooks {slug}\n")
            stale = 1
    return stale
