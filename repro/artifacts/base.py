"""The interface of an artifact: one figure or table of a paper, run and drawn by the harness.

An artifact is a module ``repro/artifacts/<slug>.py``, or a package of that name where it is long.
It holds ``ARTIFACT`` and its configuration. ``repro.artifacts.index`` imports all of them, so
everything heavy (torch, matplotlib, pandas) is imported inside the functions that need it, and
functions of modules that import it are declared by ``lazy``. The template of its notebook lies
beside it as ``<slug>.md``, or in the package as ``notebook.md``.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from repro.claims.index import of_artifact
from repro.measurement.records import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repro.claims.verdict import Finding
    from repro.execution.executor import Executor
    from repro.measurement.environment import Environment
    from repro.measurement.prior_results import PriorResults
    from repro.measurement.records import Record
    from repro.measurement.result_cache import ResultCache

    Draw = Callable[[Sequence[Record]], Figure]


class Config(Protocol):
    """A frozen dataclass: a documented, validated field for each setting.

    The command line is derived from it. ``__post_init__`` raises ``UsageError`` for a wrong value.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Result:
    """One result of a run, before the harness adds where it came from."""

    kind: str
    """What sort of result this is; the artifact's ``run`` module lists its kinds."""
    point: Mapping[str, Any]
    """The coordinates of this result within the run."""
    metrics: Mapping[str, Any]
    """Raw values in bytes, seconds and fractions."""
    seed: int | None = None


@dataclasses.dataclass(frozen=True)
class Context:
    """What the harness gives to a run."""

    environment: "Environment"
    """Code, machine and versions of the run."""
    result_cache: "ResultCache"
    """Points of this very run that are done; forgotten once its records are written."""
    workers: int
    """How many processes may run at a time."""
    executor: "Executor"
    """What trains runs."""
    prior_results: "PriorResults"
    """Results that stand in earlier records and need not be made again."""


def lazy(path: str, *first: object) -> Callable[..., Any]:
    """Return a function whose module is imported when it is called.

    Args:
        path: the function, as in ``repro.claims.accuracies:findings``.
        first: arguments that it gets before those of a call.
    """

    def imported(*arguments: object) -> Any:  # noqa: ANN401 - as the function has it
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)(*first, *arguments)

    return imported


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One figure or table of a paper."""

    slug: str
    """Name of its module, of its results directory and of its notebook."""
    paper: str
    """Which paper: ``mezo`` or ``elasticzo``."""
    title: str
    """One line for listings."""
    config: type[Config]
    profiles: Mapping[Profile, Config]
    """The configuration of each of ``smoke``, ``quick`` and ``paper``, and maybe of others."""
    run: Callable[[Any, Context], Iterator[Result]]
    """Computes and measures by a ``config``; results come as they are made."""
    about: str | None = None
    """The docstring of its module: what it shows, and the numbered deviations from the paper."""
    figures: "Callable[[], Mapping[str, Draw]]" = dict
    """Returns a function of the records for each figure's name."""
    captions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What each figure shows, by its name, also for those who cannot see it."""
    claims: tuple[str, ...] = ()
    """Ids of the claims it gives a finding for; by default all that name it."""
    findings: "Callable[[Sequence[Record]], list[Finding]]" = lambda _: []
    """Returns our value for each of ``claims``, from the current records."""
    selector_fields: tuple[str, ...] = ()
    """Configuration fields, all tuples, that only choose which training runs are made and change
    none of them. A run with fewer values there still counts as its profile's, and reports combine
    the records of all runs; without such fields they read one run, the newest of the highest
    profile."""
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Values of the selector fields that count as another value, the profile's."""
    reads_custom: bool = False
    """Whether reports also combine runs of no profile: of a search, every combination counts."""
    can_sweep: bool = False
    """Whether ``repro sweep`` can spread its training runs over machines."""
    timed: bool = False
    """Whether time is its result. A run on another device or engine is then not of its profile."""

    def __post_init__(self) -> None:
        """Find the claims if none are given."""
        if not self.claims:
            object.__setattr__(self, "claims", tuple(claim.id for claim in of_artifact(self.slug)))
