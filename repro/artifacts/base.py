"""What an artifact is: one figure or table of a paper, run and drawn by the harness.

An artifact is a package in ``repro/artifacts/`` named by its slug. Its ``__init__`` holds
``ARTIFACT`` and the ``Config`` class and imports nothing heavy, so that listing and help stay
quick; what it does lies in its modules, imported when they are needed:

- ``run``: ``run(config, context) -> Iterator[Result]`` computes and measures;
- ``findings``: ``findings(records) -> list[Finding]``, our value for each claim, if it has any;
- ``figures``: ``FIGURES``, a name and a drawing function of records for each figure, and
  ``CAPTIONS``, what each of them shows, for those who read and for those who cannot see it;
- ``notebook.md``: the template of its notebook.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from repro.measurement.records import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repro.claims.verdict import Finding
    from repro.execution.executor import Executor
    from repro.measurement.environment import Environment
    from repro.measurement.point_store import PointStore
    from repro.measurement.recorded import Recorded
    from repro.measurement.records import Record


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
    journal: "PointStore"
    """Points of this very run that are done; forgotten once its records are written."""
    workers: int
    """How many processes may run at a time."""
    executor: "Executor"
    """What runs cells."""
    recorded: "Recorded"
    """Results that stand in earlier records and need not be made again."""


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One figure or table of a paper."""

    slug: str
    """Name of its package, of its results directory and of its notebook."""
    paper: str
    """Which paper: ``mezo`` or ``elasticzo``."""
    title: str
    """One line for listings."""
    claims: tuple[str, ...]
    """Ids of the claims it gives a finding for."""
    config: type[Config]
    profiles: Mapping[Profile, Config]
    """The configuration of each of ``smoke``, ``quick`` and ``paper``, and maybe of others."""
    scope: tuple[str, ...] = ()
    """Configuration fields, all tuples, that only choose which cells are run and change none of
    them. A run with fewer values there is still its profile's, and people read the cells of all
    runs together; without a scope they read one run, the newest of the highest profile."""
    stands_for: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What a value of the scope's fields is another name of: a run of it is its profile's, too."""
    trains_cells: bool = False
    """Whether its runs are cells, which ``repro sweep`` can spread over machines."""
    timed: bool = False
    """Whether time is its result: a run on another device, by another engine, is then no run of its
    profile."""

    def run(self, config: Config, context: Context) -> Iterator[Result]:
        """Compute and measure; results come as they are made."""
        run: Callable[[Config, Context], Iterator[Result]] = self._part("run").run
        return run(config, context)

    def findings(self, records: "Sequence[Record]") -> "list[Finding]":
        """Return our value for each claim, from the records that stand; none without claims."""
        if not self.claims:
            return []
        findings: Callable[[Sequence[Record]], list[Finding]] = self._part("findings").findings
        return findings(records)

    def figures(self) -> "Mapping[str, Callable[[Sequence[Record]], Figure]]":
        """Return a drawing function of the records for each figure's name."""
        figures: Mapping[str, Callable[[Sequence[Record]], Figure]] = self._part("figures").FIGURES
        return figures

    def captions(self) -> Mapping[str, str]:
        """Return what each figure shows, by its name."""
        captions: Mapping[str, str] = self._part("figures").CAPTIONS
        return captions

    def _part(self, name: str) -> Any:  # noqa: ANN401 - a module
        return import_module(f"repro.artifacts.{self.slug}.{name}")
