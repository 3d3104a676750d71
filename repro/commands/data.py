"""``repro data``: list, download, verify, locate and preview data sets and model files."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from repro.core.errors import ReproError
from repro.core.units import format_bytes
from repro.data import cache
from repro.data.base import DataSet
from repro.data.catalog import MODULES, load_set
from repro.data.table import markdown


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command and its subcommands to the parser."""
    parser = subparsers.add_parser(
        "data", help="list, download, verify and preview data sets and model files"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION")

    listing = actions.add_parser("list", help="list the data sets and whether each is in the cache")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list of objects")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/data.md")
    listing.set_defaults(execute=list_sets, next_step="repro data fetch NAME downloads one")

    fetching = actions.add_parser("fetch", help="download data sets into the cache and verify them")
    fetching.add_argument("names", nargs="+", metavar="NAME", help="as in repro data list")
    fetching.add_argument(
        "--mirror",
        type=Path,
        metavar="DIR",
        help="directory with copies, tried after all other sources (default: $REPRO_DATA_MIRROR)",
    )
    fetching.add_argument(
        "--accept-terms",
        action="store_true",
        help="accept the terms of use; `repro data list` shows which sets have any",
    )
    fetching.set_defaults(
        execute=fetch, next_step="repro data preview {names[0]} FILE.png draws samples"
    )

    verifying = actions.add_parser("verify", help="check the hashes of cached data sets")
    verifying.add_argument("names", nargs="*", metavar="NAME", help="default: all in the cache")
    verifying.set_defaults(execute=verify, next_step="repro data list shows all sets")

    locating = actions.add_parser("path", help="print the directory of a cached data set")
    locating.add_argument("name", metavar="NAME", help="as in repro data list")
    locating.set_defaults(
        execute=path, next_step="repro data preview {name} FILE.png draws samples"
    )

    drawing = actions.add_parser(
        "preview", help="draw samples of a data set, downloading it if needed"
    )
    drawing.add_argument("name", metavar="NAME", help="as in repro data list")
    drawing.add_argument(
        "file", type=Path, metavar="FILE", help="image to write: .png, .svg or .pdf"
    )
    drawing.set_defaults(execute=preview, next_step="repro list shows the artifacts that use data")


def list_sets(args: argparse.Namespace) -> int:
    """Print one line, one JSON object, or one row of a Markdown table for each data set."""
    if args.markdown:
        sys.stdout.write(markdown())
        return 0
    sets = [load_set(name) for name in MODULES]
    if args.json:
        rows = [
            {
                "name": dataset.name,
                "title": dataset.title,
                "licence": dataset.licence,
                "terms": dataset.terms,
                "bytes": dataset.size,
                "cached": cache.is_cached(dataset),
                "sources": [source.name for source in dataset.sources],
                "content": {key: dataclasses.asdict(spec) for key, spec in dataset.content.items()},
            }
            for dataset in sets
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    width = max(len(dataset.name) for dataset in sets)
    sys.stdout.write(f"{'set':<{width}}  {'size':>8}  in the cache  content (licence)\n")
    for dataset in sets:
        cached = "yes" if cache.is_cached(dataset) else "no"
        terms = f"; terms: {dataset.terms}" if dataset.terms else ""
        sys.stdout.write(
            f"{dataset.name:<{width}}  {format_bytes(dataset.size):>8}  {cached:<12}  "
            f"{dataset.title} ({dataset.licence}{terms})\n"
        )
    return 0


def fetch(args: argparse.Namespace) -> int:
    """Download every named set and print its directory; a failure does not stop the others."""

    def fetch_one(dataset: DataSet) -> str:
        found = cache.fetch(dataset.name, args.mirror, accept_terms=args.accept_terms)
        return f"{dataset.name}: {found}"

    return _each(args.names, fetch_one)


def verify(args: argparse.Namespace) -> int:
    """Verify the named sets, or all in the cache; damage to one does not stop the others."""
    names = args.names or [name for name in MODULES if cache.is_cached(load_set(name))]
    if not names:
        sys.stderr.write("No data set is in the cache; there is nothing to verify.\n")

    def verify_one(dataset: DataSet) -> str:
        cache.verify(dataset.name)
        return f"{dataset.name}: verified, {format_bytes(dataset.size)}"

    return _each(names, verify_one)


def path(args: argparse.Namespace) -> int:
    """Print the directory of one data set.

    Raises:
        ReproError: it is not in the cache.
    """
    dataset = load_set(args.name)
    if not cache.is_cached(dataset):
        msg = f"{dataset.name} is not in the cache; run: repro data fetch {dataset.name}"
        raise ReproError(msg)
    sys.stdout.write(f"{cache.location(dataset)}\n")
    return 0


def preview(args: argparse.Namespace) -> int:
    """Draw samples of one data set into an image file."""
    from repro.data.preview import draw_samples

    draw_samples(args.name, args.file)
    sys.stdout.write(f"{args.file}\n")
    return 0


def _each(names: Sequence[str], act: Callable[[DataSet], str]) -> int:
    sets = [load_set(name) for name in names]  # reports a wrong name before any download
    failures: list[ReproError] = []
    for dataset in sets:
        try:
            sys.stdout.write(act(dataset) + "\n")
        except ReproError as error:
            failures.append(error)
            sys.stderr.write(f"repro: error: {error}\n")
    return max((failure.exit_code for failure in failures), default=0)
