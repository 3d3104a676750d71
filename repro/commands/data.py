"""``repro data``: list, fetch, verify, locate and draw data sets and model files."""

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
    parser = subparsers.add_parser("data", help="list, fetch, verify, locate and draw data sets")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="list the sets and which are in the cache")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list of objects")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/data.md")
    listing.set_defaults(execute=list_sets)

    fetching = actions.add_parser("fetch", help="fetch sets into the cache, verified")
    fetching.add_argument("names", nargs="+", metavar="NAME")
    fetching.add_argument(
        "--mirror",
        type=Path,
        metavar="DIR",
        help="local mirror, the last source tried (default: REPRO_DATA_MIRROR)",
    )
    fetching.add_argument(
        "--accept-terms",
        action="store_true",
        help="accept the terms of use of the sets that have any; repro data list names them",
    )
    fetching.set_defaults(execute=fetch)

    verifying = actions.add_parser("verify", help="hash cached sets again")
    verifying.add_argument("names", nargs="*", metavar="NAME", help="default: all cached sets")
    verifying.set_defaults(execute=verify)

    locating = actions.add_parser("path", help="print the directory of a cached set")
    locating.add_argument("name", metavar="NAME")
    locating.set_defaults(execute=path)

    drawing = actions.add_parser("preview", help="draw samples of a set, fetching it if needed")
    drawing.add_argument("name", metavar="NAME")
    drawing.add_argument("file", type=Path, metavar="FILE", help="image file; .png, .svg or .pdf")
    drawing.set_defaults(execute=preview)


def list_sets(args: argparse.Namespace) -> int:
    """Print one line below a header, one JSON object, or one row of a table for each set."""
    if args.markdown:
        sys.stdout.write(markdown())
        return 0
    sets = [load_set(name) for name in MODULES]
    if args.json:
        sys.stdout.write(json.dumps([_describe(dataset) for dataset in sets], indent=2) + "\n")
        return 0
    width = max(len(dataset.name) for dataset in sets)
    sys.stdout.write(f"{'set':<{width}}  {'size':>8}  in the cache  what it is (licence)\n")
    for dataset in sets:
        cached = "yes" if cache.is_cached(dataset) else "no"
        terms = f"; terms: {dataset.terms}" if dataset.terms else ""
        sys.stdout.write(
            f"{dataset.name:<{width}}  {format_bytes(dataset.size):>8}  {cached:<12}  "
            f"{dataset.title} ({dataset.licence}{terms})\n"
        )
    return 0


def fetch(args: argparse.Namespace) -> int:
    """Fetch every named set, going on after one that fails; print where each is."""

    def fetch_one(dataset: DataSet) -> str:
        found = cache.fetch(dataset.name, args.mirror, accept_terms=args.accept_terms)
        return f"{dataset.name}: {found}"

    return _each(args.names, fetch_one)


def verify(args: argparse.Namespace) -> int:
    """Verify every named set, or all that are cached, going on after one that is damaged."""
    names = args.names or [name for name in MODULES if cache.is_cached(load_set(name))]
    if not names:
        sys.stderr.write("no set is in the cache: nothing to verify\n")

    def verify_one(dataset: DataSet) -> str:
        cache.verify(dataset.name)
        return f"{dataset.name}: verified, {format_bytes(dataset.size)}"

    return _each(names, verify_one)


def path(args: argparse.Namespace) -> int:
    """Print the directory of one set.

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
    """Draw samples of one set into an image file."""
    from repro.data.preview import draw_samples

    draw_samples(args.name, args.file)
    sys.stdout.write(f"{args.file}\n")
    return 0


def _each(names: Sequence[str], act: Callable[[DataSet], str]) -> int:
    sets = [load_set(name) for name in names]  # a wrong name is found before any work
    failures: list[ReproError] = []
    for dataset in sets:
        try:
            sys.stdout.write(act(dataset) + "\n")
        except ReproError as error:
            failures.append(error)
            sys.stderr.write(f"repro: error: {error}\n")
    return max((failure.exit_code for failure in failures), default=0)


def _describe(dataset: DataSet) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "title": dataset.title,
        "licence": dataset.licence,
        "terms": dataset.terms,
        "bytes": dataset.size,
        "cached": cache.is_cached(dataset),
        "sources": [source.name for source in dataset.sources],
        "content": {key: dataclasses.asdict(spec) for key, spec in dataset.content.items()},
    }
