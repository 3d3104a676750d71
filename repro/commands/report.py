"""``repro report`` and ``repro notebooks``: figures, results, site and notebooks from records."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from repro.artifacts.index import SLUGS, load
from repro.commands.options import add_results, in_format
from repro.core.errors import UsageError
from repro.core.paths import notebooks_dir, results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the two commands to the parser."""
    parser = subparsers.add_parser(
        "report",
        help="draw the figures from the records; optionally write the README's results or a site",
    )
    parser.add_argument(
        "slugs",
        nargs="*",
        metavar="SLUG",
        help="artifacts to draw (default: all with records)",
    )
    add_results(parser, results_dir())
    parser.add_argument(
        "--readme",
        type=Path,
        metavar="FILE",
        help="rewrite the results section of this Markdown file and the figures docs/figures/"
        "scorecard-*.png beside it, and README.md in the results (the table of all statements); in "
        "a clone also the tables of docs/ that come from records, and "
        "the summary that the package ships (default: none)",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="DIR",
        help="write a static site with statements, figures, records, documents and the planner; "
        "an earlier site in DIR is replaced",
    )
    parser.add_argument(
        "--notebooks",
        type=Path,
        metavar="DIR",
        help="read the site's notebooks here (default: notebooks)",
    )
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="DIR",
        help="read README.md and docs/ for the site here (default: .)",
    )
    parser.set_defaults(execute=execute, next_step="repro open shows the site or a figure")
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
        execute=build_notebooks, next_step="repro report --html site shows them on the site"
    )


def execute(args: argparse.Namespace) -> int:
    """Draw the figures, rewrite the results, and print the site's address, or else the claims."""
    for slug in args.slugs:
        load(slug)  # reports a wrong name before anything is drawn
    documents = args.documents or Path()
    # other mistakes likewise
    if args.html is not None:
        from repro.site.documents import Documents
        from repro.site.publish import require_replaceable

        require_replaceable(args.html)
        Documents(documents, ())
    else:
        for option in ("notebooks", "documents"):
            if getattr(args, option) is not None:
                raise UsageError(f"--{option}: only --html reads these; add --html DIR")
    if args.readme is not None:
        from repro.report.markdown import require_results

        require_results(args.readme)
    from repro.report.claims_table import claim_rows
    from repro.report.documents import write_tables
    from repro.report.figures import draw
    from repro.report.markdown import update_readme, write_ledger
    from repro.report.runs import current_runs, require_runs
    from repro.report.summary import SUMMARY, write_summary
    from repro.report.terminal import claims_text

    every = [slug for slug in SLUGS if current_runs(args.results, slug)]
    slugs = [load(slug).slug for slug in args.slugs] or every
    if not slugs:
        raise UsageError(f"{args.results} holds no records; repro run makes some")
    # the site shows all artifacts; figures that are up to date are kept
    for slug in slugs if args.html is None else dict.fromkeys([*slugs, *every]):
        runs = require_runs(args.results, slug)
        for path in draw(slug, runs, args.results / slug / "figures"):
            sys.stdout.write(f"{path}\n")
    rows = []
    if args.readme is not None:
        rows = claim_rows(args.results)
    elif args.html is None:
        rows = claim_rows(args.results, slugs)
    if args.readme is not None:
        for path in update_readme(args.readme, args.results, rows):
            sys.stdout.write(f"{path}\n")
        sys.stdout.write(f"{write_ledger(args.results, rows)}\n")
        shipped = args.readme.parent / "repro" / "report" / SUMMARY.name
        if shipped.is_file():  # the README of a clone
            write_summary(args.results, [row.as_dict() for row in rows], shipped)
            sys.stdout.write(f"{shipped}\n")
            for document in write_tables(args.readme.parent / "docs", args.results):
                sys.stdout.write(f"{document}\n")
    if args.html is None:
        if shown := [row for row in rows if row.artifact in slugs]:
            sys.stdout.write(claims_text(shown))
        return 0
    from repro.site.build import build

    build(args.results, args.notebooks or notebooks_dir(), documents, args.html)
    if args.html != Path("site"):
        args.next_step = f"repro open --site {shlex.quote(in_format(args.html))} shows it"
    sys.stdout.write(f"{args.html / 'index.html'}\n")
    return 0


def build_notebooks(args: argparse.Namespace) -> int:
    """Build the notebooks, or check them."""
    # by their present names; a wrong name is reported before any notebook runs
    slugs = [load(slug).slug for slug in args.slugs] or SLUGS
    from repro.report import notebooks
    from repro.report.runs import require_runs

    wanted = [
        (slug, require_runs(args.results, slug), args.out / f"{slug}.ipynb") for slug in slugs
    ]
    if not args.check:
        for path in notebooks.build(wanted):
            sys.stdout.write(f"{path}\n")
        return 0
    stale = 0
    for slug, runs, path in wanted:
        if notebooks.is_stale(slug, path, runs):
            sys.stderr.write(f"{path} is out of date; run: repro notebooks {slug}\n")
            stale = 1
    if not stale:
        sys.stdout.write(f"{len(slugs)} notebook{'s' if len(slugs) > 1 else ''}: up to date\n")
    return stale
