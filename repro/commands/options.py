"""Derive command lines from an artifact's configuration."""

import argparse
import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from repro.artifacts.base import Artifact
from repro.core.paths import results_dir
from repro.core.validation import require_choice
from repro.measurement.records import PROFILES, Profile


def add_results(
    parser: argparse.ArgumentParser,
    default: Path | None = None,
    what: str = "directory of the records",
) -> None:
    """Add the option ``--results``, whose default may be found when it is read."""
    parser.add_argument(
        "--results", type=Path, default=default, metavar="DIR", help=f"{what} (default: results)"
    )


def in_format(path: Path) -> str:
    """Return ``path`` for a text in which braces name fields."""
    return str(path).replace("{", "{{").replace("}", "}}")


_PROFILE_HELP = (
    "Amount of work: smoke (seconds), quick (minutes on two cores), paper (the published setting), "
    "or a profile between them."
)
Configuration = TypeVar("Configuration")


@dataclasses.dataclass(frozen=True)
class CommonOptions(Generic[Configuration]):
    """Options of every command that runs an artifact."""

    config: Configuration
    """The artifact's own options."""
    profile: Profile = "quick"
    """Amount of work."""
    out: Path = dataclasses.field(default_factory=results_dir)
    """Directory of the results; records are written to a subdirectory with the artifact's name."""


def parse(
    kind: type[CommonOptions[Any]], command: str, artifact: Artifact, arguments: list[str]
) -> Any:  # noqa: ANN401 - of the kind
    """Return options of ``kind`` from the arguments after the slug.

    Raises:
        SystemExit: status 2 for a usage error, 0 after help.
        UsageError: the configuration refuses a value.
    """
    import tyro

    # the profile first, since all other defaults depend on it
    profile: Profile = "quick"  # also for an invalid one, which the full parser refuses
    for word, after in pairwise([*arguments, ""]):
        given = after if word == "--profile" else word.partition("--profile=")[2]
        profile = next((name for name in PROFILES if name == given), profile)
    require_choice(f"profile of {artifact.slug}", profile, artifact.profiles)
    there = tuple(name for name in PROFILES if name in artifact.profiles)
    choice = Annotated[Literal[there], tyro.conf.arg(help=_PROFILE_HELP)]  # type: ignore[valid-type]
    # a subclass, so that help and errors name the profiles of this artifact only
    narrowed = dataclasses.make_dataclass(
        kind.__name__,
        [("profile", choice, profile)],
        bases=(kind[type(artifact.profiles[profile])],),  # type: ignore[index]
        frozen=True,
    )
    return tyro.cli(
        narrowed,
        prog=f"{command} {artifact.slug}",
        description=artifact.title,
        args=arguments,
        default=narrowed(config=artifact.profiles[profile], profile=profile),
        config=(tyro.conf.OmitArgPrefixes,),  # --seeds instead of --config.seeds
    )
