"""The interface of an artifact: one figure or table of a paper, run and drawn by the harness.

An artifact is a module ``repro/artifacts/<slug>.py``, or a package of that name where it is long.
It holds ``ARTIFACT`` and its configuration. ``repro.artifacts.index`` imports all of them, so
everything heavy (torch, matplotlib, pandas) is imported inside the functions that need it, and
functions of modules that import it are declared by ``lazy``. The template of its notebook is
``<slug>.md`` next to the module, or ``notebook.md`` in the package.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from repro.claims.index import of_artifact
from repro.measurement.records import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repro.claims.verdict import Finding
    from repro.execution.schedule import Executor
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
    """The sort of result; the artifact's ``run`` module lists its kinds."""
    point: Mapping[str, Any]
    """The coordinates of this result within the run."""
    metrics: Mapping[str, Any]
    """Raw values in bytes, seconds and fractions."""
    seed: int | None = None


@dataclasses.dataclass(frozen=True)
class Context:
    """The services that the harness gives to a run."""

    environment: "Environment"
    """Code, machine and versions of the run."""
    result_cache: "ResultCache"
    """Finished points of this run, for resuming it; deleted once its records are written."""
    workers: int
    """Maximum number of processes at a time."""
    executor: "Executor"
    """Trains the runs."""
    prior_results: "PriorResults"
    """Results in earlier records, which need not be computed again."""
    models: Path | None = None
    """Directory in which trained models are saved, or ``None`` to keep none."""


def lazy(path: str, *first: object) -> Callable[..., Any]:
    """Return a function whose module is imported when it is called.

    Args:
        path: module and name of the function, as in ``repro.claims.trained:findings_of``.
        first: arguments passed to it before the caller's.
    """

    def imported(*arguments: object, **named: object) -> Any:  # noqa: ANN401 - as the function has it
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)(*first, *arguments, **named)

    imported.__name__ = path.rpartition(":")[2]
    return imported


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One figure or table of a paper."""

    slug: str
    """Name of its module, of its results directory and of its notebook."""
    paper: str
    """The paper: a key of ``repro.core.names.PAPERS``."""
    title: str
    """One line for listings."""
    profiles: Mapping[Profile, Config]
    """The configurations ``smoke``, ``quick`` and ``paper``, and possibly others, of one class."""
    run: Callable[[Any, Context], Iterator[Result]]
    """Computes or measures the results of a configuration, and yields each as soon as it is
    ready."""
    about: str | None = None
    """The docstring of its module: its subject, and the numbered deviations from the paper."""
    figures: "Mapping[str, Draw]" = dataclasses.field(default_factory=dict)
    """The function that draws each figure from records, by the figure's name; by default the
    functions of these names in the module ``figures`` of the artifact's package."""
    captions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """A description of each figure by its name, also for readers who cannot see the figure."""
    claims: tuple[str, ...] = ()
    """Ids of the claims it gives a finding for; by default all claims that name it."""
    findings: "Callable[[Sequence[Record]], list[Finding]]" = lambda _: []
    """Returns our value for each of ``claims``, from the current records."""
    selector_fields: tuple[str, ...] = ()
    """Configuration fields, all tuples, that only select which training runs are made and change
    none of them. A run with fewer values in these fields still belongs to its profile, and reports
    combine the records of all runs. Without such fields they read one run, the newest of the
    highest profile."""
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Maps a value of a selector field to the profile's value that it counts as."""
    reads_custom: bool = False
    """Whether reports also use runs of no profile: a search needs all combinations ever tried, and
    step times of fewer rounds are step times, too."""
    takes_recorded: bool = False
    """Whether its run takes results from ``Context.prior_results`` instead of computing them."""
    saves_models: bool = False
    """Whether its run saves the models that it trains in ``Context.models``."""
    timed: bool = False
    """Whether its results are times. Runs on another device or engine then belong to no profile."""

    @property
    def can_sweep(self) -> bool:
        """Whether ``repro sweep`` can spread its runs; those whose times are results run alone."""
        return self.takes_recorded and not self.timed

    def __post_init__(self) -> None:
        # the class is frozen, and both defaults depend on the slug
        if not self.claims:
            object.__setattr__(self, "claims", tuple(claim.id for claim in of_artifact(self.slug)))
        if not self.figures:
            module = f"repro.artifacts.{self.slug}.figures"
            figures = {name: lazy(f"{module}:{name}") for name in self.captions}
            object.__setattr__(self, "figures", figures)


def config_dict(config: Config) -> dict[str, Any]:
    """Return ``config`` as plain values for JSON."""
    values: dict[str, Any] = dataclasses.asdict(config)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }
