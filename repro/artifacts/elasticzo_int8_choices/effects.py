"""What each other answer changes: the same method, set and seeds by the default and by it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from repro.artifacts.elasticzo_int8_choices.choices import CHOICES, DEFAULTS, Changes, Choice
from repro.claims.elasticzo import DATASETS
from repro.claims.statistics import Estimate, estimate
from repro.claims.trained import Cell, Cells
from repro.core.errors import ReproError
from repro.measurement.records import Record


@dataclass(frozen=True)
class Effect:
    """One method on one set by the default and by another answer."""

    choice: Choice
    answer: str
    """The other answer."""
    default: Cell
    other: Cell

    @property
    def last(self) -> Estimate:
        """Accuracy of the other minus that of the default after the last epoch, in points.

        It is the mean over the seeds of both.
        """
        return estimate([gains[-1] for gains in self._gains()])

    @property
    def by_epoch(self) -> list[float]:
        """The same after each epoch, without interval."""
        return [fmean(gains) for gains in zip(*self._gains(), strict=False)]

    def _gains(self) -> list[list[float]]:
        """Return the difference after each epoch, for each seed of both, in points."""
        default = {record.seed: curve(record) for record in self.default.records}
        other = {record.seed: curve(record) for record in self.other.records}
        return [
            [ours - theirs for ours, theirs in zip(other[seed], default[seed], strict=False)]
            for seed in default
            if seed in other
        ]


def effects(records: Sequence[Record]) -> list[Effect]:
    """Return the effects that the records hold both sides of: by set, choice, method, answer.

    Raises:
        ReproError: the two sides of one were trained differently in more than the answer.
    """
    return list(_effects(Cells(records)))


def curve(record: Record) -> list[float]:
    """Return the test accuracy after each epoch, in per cent."""
    return [100 * accuracy for accuracy in record.metrics["test_accuracy"][1:]]


def _effects(cells: Cells) -> Iterator[Effect]:
    for dataset, choice in product(DATASETS, CHOICES):
        for method, (answer, changes) in product(choice.methods, choice.others.items()):
            point = {"dataset": dataset, "method": method, **DEFAULTS}
            default, other = cells.get(point), cells.get({**point, **changes})
            if default and other and {*default.seeds} & {*other.seeds}:
                _require_alike(default, other, changes)
                yield Effect(choice, answer, default, other)


def _require_alike(default: Cell, other: Cell, changes: Changes) -> None:
    for name in sorted({*default.settings, *other.settings} - changes.keys()):
        one, another = default.settings.get(name), other.settings.get(name)
        if one != another:
            changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
            msg = (
                f"{default.point['method']} on {default.point['dataset']} was trained with {name} "
                f"= {one} by the defaults and {another} with {changed}: they cannot be compared; "
                "run the whole profile again, and move the other records away"
            )
            raise ReproError(msg)
