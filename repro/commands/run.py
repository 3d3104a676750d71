"""``repro run SLUG``: run one artifact; its options are the fields of its configuration."""

import argparse
import dataclasses
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from repro.artifacts.base import Artifact
from repro.artifacts.index import SLUGS, load
from repro.core.errors import UsageError
from repro.core.paths import results_dir
from repro.core.validation import require_choice
from repro.measurement.records import PROFILES, Profile

Options = TypeVar("Options")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "run",
        help="run one artifact (repro run SLUG --help lists its options)",
        usage="repro run SLUG [--profile P] [--out DIR] [--report] [options of the artifact]",
    )
    parser.add_argument(
        "slug", nargs="?", metavar="SLUG", help="an artifact's name; see repro list"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run the artifact and print where its records are."""
    if args.slug is None:
        msg = f"give the artifact to run: {', '.join(SLUGS)}"
        raise UsageError(msg)
    artifact = load(args.slug)
    options = parse_options(artifact, args.rest)
    from repro.harness import run_artifact

    path = run_artifact(artifact, options.profile, options.config, options.out)
    sys.stdout.write(f"{path}\n")
    if options.report:
        _report(artifact.slug, path)
    return 0


def parse_options(artifact: Artifact, arguments: list[str]) -> Any:  # noqa: ANN401 - made here
    """Return ``config``, ``profile``, ``out`` and ``report`` from the arguments after the slug.

    Raises:
        SystemExit: status 2 for a usage error, 0 after help.
        UsageError: a value that the configuration refuses.
    """
    import tyro

    @dataclasses.dataclass(frozen=True)
    class RunOptions(Generic[Options]):
        config: Annotated[Options, tyro.conf.arg(name="")]
        profile: Profile = "quick"
        """How much: seconds for tests, minutes on two cores, or the published setting; what else
        there is depends on the artifact."""
        out: Path = results_dir()  # noqa: RUF009 - read anew at every call of the function
        """Directory of the results; records go to a subdirectory named by the slug."""
        report: bool = False
        """Also draw the figures and make the notebook, in a directory beside the records."""

    profile = _profile(arguments)
    require_choice(f"profile of {artifact.slug}", profile, artifact.profiles)
    return tyro.cli(
        RunOptions[artifact.config],  # type: ignore[name-defined]
        prog=f"repro run {artifact.slug}",
        description=artifact.title,
        args=arguments,
        default=RunOptions(config=artifact.profiles[profile], profile=profile),
    )


def _profile(arguments: list[str]) -> Profile:
    """Find the profile first: it decides the defaults of all other options."""
    for profile in PROFILES:
        if f"--profile={profile}" in arguments or ("--profile", profile) in pairwise(arguments):
            return profile
    return "quick"  # also for a wrong one, which the full parser refuses


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
