"""``repro open [SLUG]``: show the site, or the figure of an artifact, in a browser."""

import argparse
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Any

from repro.artifacts.index import load
from repro.commands.options import add_results
from repro.core.errors import ReproError, UsageError
from repro.core.paths import results_dir


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "open",
        help="open the site, or the page or figure of one artifact, in a browser",
        description="Open the site that `repro report --html site` wrote: its first page, or the "
        "page of one artifact. Without a site, or with --results, open the figure of the "
        "artifact. The path is printed, too, for use where there is no browser.",
    )
    parser.add_argument("slug", nargs="?", metavar="SLUG", help="artifact (default: the index)")
    parser.add_argument(
        "--site", type=Path, default=Path("site"), metavar="DIR", help="site (default: site)"
    )
    add_results(parser, what="directory of the artifact's figures")
    parser.set_defaults(execute=execute, next_step="repro claims lists every statement")


def execute(args: argparse.Namespace) -> int:
    """Open the page or figure, if there is a browser, and print its path."""
    choices = [args.site / "index.html"]
    if args.slug is None:
        if args.results is not None:
            raise UsageError(
                "--results: holds the figures of one artifact; name it, as in mezo_fig3"
            )
    else:
        artifact = load(args.slug)
        figures = (args.results or results_dir()) / artifact.slug / "figures"
        choices = [figures / f"{name}.png" for name in artifact.captions]
        if args.results is None:  # the site shows the results that it was made from
            choices = [args.site / "artifacts" / f"{artifact.slug}.html", *choices]
    path: Path | None = next((path for path in choices if path.is_file()), None)
    if path is None:
        wanted = " nor ".join(map(str, choices[:2]))
        of = "" if args.results is None else f" --results {shlex.quote(str(args.results))}"
        raise ReproError(
            f"there is no {wanted}; draw the figures with: repro report {args.slug or 'SLUG'}{of}, "
            f"or in a clone write the site with: repro report --html {args.site}"
        )
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()  # before a browser writes to the terminal
    if not webbrowser.open(path.resolve().as_uri()):
        sys.stderr.write("No browser was found; open the file above in one.\n")
    return 0
