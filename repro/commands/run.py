"""``repro run SLUG``: run one artifact; its options are the fields of its configuration."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from repro.artifacts.base import Artifact
from repro.artifacts.index import load
from repro.core.paths import results_dir

Options = TypeVar("Options")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "run",
        help="run one artifact (repro run SLUG --help lists its options)",
        usage="repro run SLUG [--profile {smoke,quick,paper}] [--out DIR] [artifact's options]",
    )
    parser.add_argument("slug", metavar="SLUG", help="an artifact's name; see repro list")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run the artifact and print where its records are."""
    artifact = load(args.slug)
    profile, out, config = parse_options(artifact, args.rest)
    from repro.harness import run_artifact

    path = run_artifact(artifact, profile, config, out)
    sys.stdout.write(f"{path}\n")
    return 0


def parse_options(artifact: Artifact, arguments: list[str]) -> tuple[str, Path, Any]:
    """Return profile, results directory and configuration from the arguments after the slug.

    Raises:
        SystemExit: status 2 for a usage error, 0 after help.
        UsageError: a value that the configuration refuses.
    """
    import tyro

    @dataclasses.dataclass(frozen=True)
    class RunOptions(Generic[Options]):
        config: Annotated[Options, tyro.conf.arg(name="")]
        profile: Literal["smoke", "quick", "paper"] = "quick"
        """How much: seconds for tests, minutes on two cores, or the published setting."""
        out: Path = results_dir()  # noqa: RUF009 - read anew at every call of the enclosing function
        """Directory of the results; records go to a subdirectory named by the slug."""

    profile = _profile(arguments)
    options: Any = tyro.cli(
        RunOptions[artifact.config],  # type: ignore[name-defined]
        prog=f"repro run {artifact.slug}",
        description=artifact.title,
        args=arguments,
        default=RunOptions(config=artifact.profiles[profile], profile=profile),
    )
    return options.profile, options.out, options.config


def _profile(arguments: list[str]) -> Any:  # noqa: ANN401 - checked again by the full parser
    """Find the profile first: it decides the defaults of all other options."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--profile", default="quick")
    found = parser.parse_known_args(arguments)[0].profile
    return found if found in ("smoke", "quick", "paper") else "quick"
