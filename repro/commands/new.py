"""``repro new``: write the skeleton of an artifact."""

import argparse
import re
import sys
from pathlib import Path
from string import Template
from typing import Any

from repro.artifacts.index import SLUGS
from repro.core import atomic
from repro.core.errors import UsageError
from repro.core.names import PAPERS
from repro.measurement.renamed import PRESENT_SLUGS

_ROOT = Path(__file__).parents[2]
_INDEX = Path("repro/artifacts/index.py")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "new", help="write the skeleton of a new artifact: module, notebook template, test"
    )
    parser.add_argument(
        "slug", metavar="SLUG", help="its name, which begins with mezo_ or elasticzo_"
    )
    parser.set_defaults(
        execute=execute, next_step="repro run {slug} --profile smoke runs the new artifact"
    )


def execute(args: argparse.Namespace) -> int:
    """Write the skeleton, register the artifact, and print the paths of the files."""
    paper, _, figure = args.slug.partition("_")
    if paper not in PAPERS or not re.fullmatch("[a-z0-9_]+", figure):
        names = " or ".join(f"{name}_..." for name in PAPERS)
        msg = f"{args.slug!r} is not a name for an artifact; give {names}, in lower case"
        raise UsageError(msg)
    if args.slug in SLUGS or args.slug in PRESENT_SLUGS:
        raise UsageError(
            f"the artifact {args.slug!r} exists already, or one had that name; choose another "
            "(repro list shows all)"
        )
    if not (_ROOT / "tests").is_dir():
        raise UsageError(
            f"the suite runs from {_ROOT}, which is not a clone; install it from a clone in "
            "editable mode (pip install -e '.[suite]' in the clone)"
        )
    values = {"slug": args.slug, "paper": paper, "figure": figure, "name": PAPERS[paper].name}
    files = {
        Path(f"repro/artifacts/{args.slug}.py"): _skeleton("artifact.py.txt", values),
        Path(f"repro/artifacts/{args.slug}.md"): _skeleton("artifact.md.txt", values),
        Path(f"tests/test_{args.slug}.py"): _skeleton("test_artifact.py.txt", values),
        _INDEX: _registered((_ROOT / _INDEX).read_text(encoding="utf-8"), args.slug, paper),
    }
    # a skeleton of the same name may be there if this command was killed
    there = [
        str(path)
        for path, text in files.items()
        if path != _INDEX and (_ROOT / path).exists() and not _holds(_ROOT / path, text)
    ]
    if there:
        msg = f"{', '.join(there)}: exists already; choose another name, or move it away"
        raise UsageError(msg)
    for path, text in files.items():
        atomic.replace(_ROOT / path, text.encode())
        sys.stdout.write(f"{path}\n")
    sys.stdout.write(f"Now add its statements to repro/claims/{paper}.py; see docs/adding.md\n")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _skeleton(name: str, values: dict[str, str]) -> str:
    template = Path(__file__).with_name("skeleton") / name
    return Template(template.read_text(encoding="utf-8")).substitute(values)


def _registered(index: str, slug: str, paper: str) -> str:
    """Return the registry's source with ``slug`` imported and last of its paper, or of all."""
    head, opening, rest = index.partition("from repro.artifacts import (\n")
    imports, closing, rest = rest.partition(")\n")
    names = sorted([*imports.splitlines(keepends=True), f"    {slug},\n"])
    found = re.split(rf"(?<=\n)(    {paper}_\w+,\n)", rest)
    if len(found) == 1:  # the first of its paper
        found = re.split(r"(    \w+,\n)(?=\))", rest, maxsplit=1)
    *before, last, after = found
    return f"{head}{opening}{''.join(names)}{closing}{''.join(before)}{last}    {slug},\n{after}"
