"""``repro run SLUG``: run one artifact; its options are the fields of its configuration."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.artifacts.index import load
from repro.commands.options import CommonOptions, Configuration, parse
from repro.core.errors import UsageError


@dataclass(frozen=True)
class RunOptions(CommonOptions[Configuration]):
    """Options of ``repro run``."""

    report: bool = False
    """Also draw the figures and build the notebook, in a directory beside the records."""


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "run",
        help="run one artifact; repro run SLUG --help lists its options",
        usage="repro run SLUG [--profile P] [--out DIR] [--report] [options of the artifact]",
    )
    parser.add_argument(
        "slug", nargs="?", metavar="SLUG", help="name of an artifact, as in repro list"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(
        execute=execute,
        next_step="repro report {slug} draws its figures; repro open {slug} shows them",
    )


def execute(args: argparse.Namespace) -> int:
    """Run the artifact and print where its records are."""
    if args.slug is None:
        msg = "give the artifact to run, as in: repro run mezo_fig3; repro list shows all"
        raise UsageError(msg)
    artifact = load(args.slug)
    options = parse(RunOptions, "repro run", artifact, args.rest)
    from repro.harness import run_artifact

    path = run_artifact(artifact, options.profile, options.config, options.out)
    sys.stdout.write(f"{path}\n")
    if options.report:
        _report(artifact.slug, path)
    return 0


def _report(slug: str, run: Path) -> None:
    from repro.report.claims_table import run_rows
    from repro.report.figures import draw
    from repro.report.notebooks import build
    from repro.report.terminal import claims_text

    directory = run.with_suffix("")
    for path in draw(slug, [run], directory):
        sys.stdout.write(f"{path}\n")
    notebook = directory / f"{slug}.ipynb"
    build(slug, [run], notebook)
    sys.stdout.write(f"{notebook}\n{claims_text(run_rows(slug, [run]))}")
