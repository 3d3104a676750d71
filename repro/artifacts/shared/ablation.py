"""Run ablations: base runs, and runs that differ from them in one or more settings.

An artifact declares its base runs, one for each seed, and the axes along which they are changed.
``repro.artifacts.shared.comparisons`` reads their records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from repro.claims.quantity import Key, Point, key
from repro.core.names import METHODS, EngineChoice, MethodName

if TYPE_CHECKING:
    from repro.artifacts.base import Context, Result
    from repro.training.run import NetworkRun

Changes = Mapping[str, Any]
"""Values by setting: ``precision``, a hyperparameter of the run or, with the prefix ``start_``, a
hyperparameter of the run that it starts from."""


@dataclass(frozen=True)
class Axis:
    """One setting and the values to try for it."""

    name: str
    """Label in figures."""
    setting: str
    """Key in ``Changes``."""
    values: tuple[Any, ...]
    """Values to try. They may include the base run's own value, which is not trained twice."""
    methods: tuple[MethodName, ...] = METHODS
    """Methods that the setting can affect; others are not trained."""
    base: str = ""
    """Label of the base run's value in figures, if it has a name."""
    changes: Mapping[Any, Changes] = field(default_factory=dict)
    """For values that change more than ``setting``: all settings that they change."""

    def changes_to(self, value: object) -> Changes:
        """Return the settings that ``value`` changes in the base run."""
        return self.changes.get(value, {self.setting: value})

    def value_at(self, base: Point, point: Point) -> Any | None:  # noqa: ANN401 - a setting's
        """Return the value at which ``point`` differs from ``base``.

        It is ``None`` if they are equal or differ in more than this axis. A value outside
        ``values`` counts if only ``setting`` differs.
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
    trains_bases: bool = True
    """Whether the base runs are trained, too; not needed where another artifact records them."""

    def runs(self) -> "Iterator[tuple[NetworkRun, Changes]]":
        """Yield the base runs and, for each value of each axis, the changed run and its changes."""
        for run in self.bases:
            if self.trains_bases:
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
    """Train every run once, and yield its result with its changes from the base run.

    Args:
        ablations: ablations to run; if a run belongs to several, the last gives its changes.
        context: the harness's services for a run.
        coordinates: settings to name in the points of the results.
        engine: the engine that trains.
    """
    from repro.artifacts.shared.training_runs import point_of, results

    runs = [run for ablation in ablations for run in ablation.runs()]
    changed: dict[tuple[Key, int | None], Changes] = {
        (key(point_of(run, coordinates)), run.seed): changes for run, changes in runs
    }
    distinct = list(dict.fromkeys(run for run, _ in runs))
    for result in results(distinct, context, extra=coordinates, engine=engine):
        yield result, changed[key(result.point), result.seed]


def change(run: "NetworkRun", changes: Changes) -> "NetworkRun":
    """Return ``run`` with ``changes`` in its own settings or in those of the run it starts from."""
    own = dict(changes)
    precision = own.pop("precision", run.precision)
    before = {name: own.pop(name) for name in changes if name.startswith("start_")}
    start = run.start
    if start is not None and before:
        settings = {name.removeprefix("start_"): value for name, value in before.items()}
        start = replace(start, settings=replace(start.settings, **settings))
    return replace(run, precision=precision, settings=replace(run.settings, **own), start=start)
