"""Ablations: base runs, and runs that differ from them in one or more settings.

An artifact declares its base runs, one for each seed, and the axes along which they are changed.
``repro.artifacts.shared.comparisons`` reads what was recorded of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from repro.core.names import METHODS, EngineChoice, MethodName

if TYPE_CHECKING:
    from repro.artifacts.base import Context, Result
    from repro.claims.quantity import Key, Point
    from repro.training.run import NetworkRun
    from repro.training.task import Evaluation

Changes = Mapping[str, Any]
"""Values by setting: ``precision``, a hyperparameter of the run, or, named ``start_...``, one of
the run that it starts from."""


@dataclass(frozen=True)
class Axis:
    """One setting and the values it is changed to."""

    name: str
    """As drawn."""
    setting: str
    """A name of ``Changes``."""
    values: tuple[Any, ...]
    """The base run's own value may be among them; that run is not made twice."""
    methods: tuple[MethodName, ...] = METHODS
    """Methods to which the setting can matter; others are not trained."""
    base: str = ""
    """The base run's value as drawn, where it has a name."""
    changes: Mapping[Any, Changes] = field(default_factory=dict)
    """The settings that a value changes, if not ``setting`` alone."""

    def changes_to(self, value: object) -> Changes:
        """Return what differs from the base run at ``value``."""
        return self.changes.get(value, {self.setting: value})

    def value_at(self, base: "Point", point: "Point") -> Any | None:  # noqa: ANN401 - a setting's
        """Return which value tells ``point`` from ``base``; none if more or nothing differs.

        A value that is not declared counts, if ``setting`` alone differs.
        """
        if point == base:
            return None
        for value in self.values:
            if {**base, **self.changes_to(value)} == point:
                return value
        value = point.get(self.setting)
        return value if {**base, self.setting: value} == point else None


@dataclass(frozen=True)
class Ablation:
    """Base runs and the axes along which they are changed."""

    bases: Sequence["NetworkRun"]
    """The base runs, one for each seed."""
    axes: tuple[Axis, ...]
    every_combination: bool = False
    """Whether every combination of the axes' values is trained, and no base run; by default the
    base runs are trained, and each value of each axis alone."""
    evaluation: "Evaluation" = "test"
    """The split that runs are evaluated on."""

    def runs(self) -> "Iterator[tuple[NetworkRun, Changes]]":
        """Yield every run, each with what differs from its base run."""
        for base in self.bases:
            run = replace(base, evaluation=self.evaluation)
            if self.every_combination:
                for values in product(*(axis.values for axis in self.axes)):
                    combined: dict[str, Any] = {}
                    for axis, value in zip(self.axes, values, strict=True):
                        combined |= axis.changes_to(value)
                    yield change(run, combined), combined
                continue
            yield run, {}
            for axis in self.axes:
                for value in axis.values if run.method in axis.methods else ():
                    changes = axis.changes_to(value)
                    if (other := change(run, changes)) != run:
                        yield other, changes


def run_ablations(
    ablations: Iterable[Ablation],
    context: "Context",
    *,
    coordinates: Sequence[str],
    engine: EngineChoice,
) -> "Iterator[tuple[Result, Changes]]":
    """Train every run once, and yield its result with what differs from its base run.

    Args:
        ablations: what to run; of a run that belongs to several, the last says what differs.
        context: the harness's services for a run.
        coordinates: settings that the points of the results name.
        engine: what trains.
    """
    from repro.artifacts.shared.training_runs import point_of, results
    from repro.claims.quantity import key

    runs = [run for ablation in ablations for run in ablation.runs()]
    changed: dict[tuple[Key, int | None], Changes] = {
        (key(point_of(run, coordinates)), run.seed): changes for run, changes in runs
    }
    distinct = list(dict.fromkeys(run for run, _ in runs))
    for result in results(distinct, context, extra=coordinates, engine=engine):
        yield result, changed[key(result.point), result.seed]


def change(run: "NetworkRun", changes: Changes) -> "NetworkRun":
    """Return ``run`` with other settings of its own or of the run it starts from."""
    own = dict(changes)
    precision = own.pop("precision", run.precision)
    before = {name: own.pop(name) for name in changes if name.startswith("start_")}
    start = run.start
    if start is not None and before:
        settings = {name.removeprefix("start_"): value for name, value in before.items()}
        start = replace(start, settings=replace(start.settings, **settings))
    return replace(run, precision=precision, settings=replace(run.settings, **own), start=start)
