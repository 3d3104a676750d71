"""Read an ablation's records: each base run, and the runs that differ along one axis."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from repro.artifacts.shared.ablation import Axis
from repro.artifacts.shared.columns import published
from repro.claims.elasticzo import PRECISIONS
from repro.claims.quantity import Point, key
from repro.claims.statistics import MeanEstimate, estimate
from repro.claims.trained import SeedGroup, SeedGroups
from repro.core.errors import ReproError
from repro.measurement.records import Record

SettingValue = str | float | None
IN_TABLE = ("dataset", "angle", "precision", "method")
"""Coordinates of an accuracy in the paper's tables."""


@dataclass(frozen=True)
class Variant:
    """All seeds of the runs at one value of an axis."""

    value: SettingValue
    group: SeedGroup
    is_base: bool = False

    @property
    def last(self) -> MeanEstimate:
        """Test accuracy after the last epoch, in per cent."""
        return estimate(list(self.group.last.values()))

    @property
    def best(self) -> MeanEstimate:
        """Test accuracy after the best epoch of each seed, in per cent."""
        return estimate(list(self.group.best.values()))

    @property
    def label(self) -> str:
        """The value as text for readers."""
        if self.value is None:
            return "schedule"
        if isinstance(self.value, str):
            return PRECISIONS.get(self.value, self.value)
        return f"{self.value:g}"


@dataclass(frozen=True)
class AxisComparison:
    """The base run and the runs at other values of one axis."""

    axis: Axis
    base: Variant
    others: tuple[Variant, ...]

    @property
    def row(self) -> Point:
        """The coordinates of the base run in its table."""
        point = self.base.group.point
        return {name: point[name] for name in IN_TABLE if name in point}

    @property
    def published(self) -> float | None:
        """The published accuracy of the base run, in per cent; ``None`` for a stand-in."""
        return published().get(key(self.row))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants: numbers in ascending order, other values with the base's value first."""

        def place(variant: Variant) -> tuple[bool, float, bool]:
            is_number = isinstance(variant.value, int | float)
            return is_number, float(variant.value or 0) if is_number else 0.0, not variant.is_base

        return tuple(sorted((self.base, *self.others), key=place))

    def gain(self, other: Variant) -> MeanEstimate:
        """Return the accuracy of ``other`` minus the base's after the last epoch, in points.

        The mean is over the seeds that both have.
        """
        return estimate([gains[-1] for gains in self._gains(other)])

    def gain_by_epoch(self, other: Variant) -> list[float]:
        """Return the mean difference after each epoch, in points, without an interval."""
        return [fmean(gains) for gains in zip(*self._gains(other), strict=False)]

    def _gains(self, other: Variant) -> list[list[float]]:
        """Return the difference after each epoch in points, for each seed that both have."""
        base = {record.seed: by_epoch(record) for record in self.base.group.records}
        changed = {record.seed: by_epoch(record) for record in other.group.records}
        return [
            [ours - theirs for ours, theirs in zip(changed[seed], base[seed], strict=False)]
            for seed in base
            if seed in changed
        ]

    def require_alike(self) -> None:
        """Raise a ``ReproError`` if the runs differ in more settings than the axis changes."""
        for variant in self.others:
            changes = self.axis.changes_to(variant.value)
            base, other = _flat(self.base.group.settings), _flat(variant.group.settings)
            for name in sorted({*base, *other} - changes.keys()):
                if base.get(name) != other.get(name):
                    point = self.base.group.point
                    changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
                    raise ReproError(
                        f"{point['method']} on {point['dataset']} was trained with {name} = "
                        f"{base.get(name)} by the defaults and {other.get(name)} with {changed}: "
                        "they cannot be compared; run the whole profile again, and move the other "
                        "records away"
                    )


def comparisons(
    records: Sequence[Record], axes: Sequence[Axis], is_base: Callable[[SeedGroup], bool]
) -> Iterator[AxisComparison]:
    """Yield a comparison for each base run and axis with at least one other recorded value."""
    groups = list(SeedGroups(records))
    for base in filter(is_base, groups):
        for axis in axes:
            found = {axis.value_at(base.point, group.point): group for group in groups}
            values = (
                *(v for v in axis.values if v in found),
                *(found.keys() - {None, *axis.values}),
            )
            others = [Variant(value, found[value]) for value in values]
            if others and base.point["method"] in axis.methods:
                own = axis.base or base.point[axis.setting]
                yield AxisComparison(axis, Variant(own, base, is_base=True), tuple(others))


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those of the run that it starts from, named as in points."""
    flat = dict(settings)
    start = flat.pop("start", None)
    return flat | {f"start_{name}": value for name, value in (start or {}).items()}


def by_epoch(record: Record) -> list[float]:
    """Return the test accuracy after each epoch, in per cent."""
    return [100 * accuracy for accuracy in record.metrics["test_accuracy"][1:]]
