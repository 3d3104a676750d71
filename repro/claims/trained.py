"""Our values for claims on trained accuracies, from the cells that were trained.

A record of kind ``run`` is one seed of one cell. Of its ``metrics``, ``test_accuracy`` holds the
fractions before training and after each epoch, ``settings`` how it was trained, and ``diverged``
whether it ended early at a loss that is not finite.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repro.claims.quantity import Accuracy, Gaps, Key, Point, Quantity, key
from repro.claims.statistics import Estimate, estimate, last_and_best
from repro.claims.verdict import Finding
from repro.measurement.records import Record, of_kind, rank

BySeed = Mapping[int | None, float]


@dataclass(frozen=True)
class Cell:
    """All seeds of one point that were trained alike."""

    records: tuple[Record, ...]
    """One for each seed, in the order of the seeds."""
    left_out: int = 0
    """Seeds trained otherwise than the newest one: their mean would be that of two experiments."""

    @property
    def profile(self) -> str:
        """Profile of the records."""
        return self.records[0].profile

    @property
    def epochs(self) -> int:
        """Epochs of training; a run that diverged has fewer."""
        return max(len(record.metrics["test_accuracy"]) for record in self.records) - 1

    @property
    def diverged(self) -> int:
        """Seeds whose training diverged: their last accuracy is the last one before."""
        return sum(record.metrics.get("diverged", False) for record in self.records)

    @property
    def last(self) -> dict[int | None, float]:
        """Test accuracy after the last epoch, in per cent, by seed."""
        return {r.seed: 100 * last_and_best(r.metrics["test_accuracy"])[0] for r in self.records}

    @property
    def best(self) -> dict[int | None, float]:
        """Test accuracy after the best epoch, in per cent, by seed."""
        return {r.seed: 100 * last_and_best(r.metrics["test_accuracy"])[1] for r in self.records}


class Cells:
    """The cells that records hold, found by their points."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Take the records that stand of an artifact; other kinds than ``run`` are passed by."""
        groups: dict[Key, list[Record]] = {}
        for record in of_kind(records, "run"):
            groups.setdefault(key(record.point), []).append(record)
        self._cells = {where: _cell(group) for where, group in groups.items()}

    def get(self, point: Point) -> Cell | None:
        """Return the cell whose coordinates are exactly those of ``point``, or ``None``."""
        return self._cells.get(key(point))


def findings(quantities: Mapping[str, Quantity], records: Iterable[Record]) -> list[Finding]:
    """Return a finding for each claim id of ``quantities``; those of absent cells have no value."""
    cells = Cells(records)
    return [
        _accuracy(claim_id, quantity, cells)
        if isinstance(quantity, Accuracy)
        else _gap(claim_id, quantity, cells)
        for claim_id, quantity in quantities.items()
    ]


def _accuracy(claim_id: str, quantity: Accuracy, cells: Cells) -> Finding:
    cell = cells.get(quantity.point)
    if cell is None:
        return Finding(claim_id, None, f"no run of {_name(quantity.point)}")
    what = "without training"
    if cell.epochs:
        best = estimate(list(cell.best.values())).mean
        what = f"after the last of {cell.epochs} epochs ({best:.2f} % after the best)"
    return _finding(claim_id, what, cell.last, [cell])


def _gap(claim_id: str, quantity: Gaps, cells: Cells) -> Finding:
    """Subtract seed by seed: seeds are independent, whatever the two methods of one share."""
    gaps: list[tuple[Estimate, str, BySeed]] = []
    used = []
    for pair in quantity.pairs:
        low, high = (cells.get(point) for point in pair)
        if low is None or high is None:
            return Finding(claim_id, None, f"no run of {_name(pair[0 if low is None else 1])}")
        both = {seed: high.last[seed] - low.last[seed] for seed in high.last if seed in low.last}
        name = f"{_name(pair[1])} minus {_name(pair[0])}"
        if not both:
            return Finding(claim_id, None, f"no seed was run for both sides of {name}")
        gaps.append((estimate(list(both.values())), name, both))
        used += [low, high]
    pick = min if quantity.pick == "smallest" else max
    _, name, by_seed = pick(gaps, key=lambda gap: gap[0].mean)
    which = f", the {quantity.pick} of {len(gaps)}" if len(gaps) > 1 else ""
    return _finding(claim_id, f"{name}{which}, after the last epoch", by_seed, used)


def _finding(claim_id: str, what: str, by_seed: BySeed, cells: Sequence[Cell]) -> Finding:
    found = estimate(list(by_seed.values()))
    reason = f"{what}, seed{'s' if len(by_seed) > 1 else ''} {', '.join(map(str, by_seed))}"
    if diverged := sum(cell.diverged for cell in cells):
        reason += f"; {diverged} diverged and counted with the last accuracy before that"
    if left_out := sum(cell.left_out for cell in cells):
        reason += f"; left out: {left_out} with other settings than the newest"
    lowest = min((cell.profile for cell in cells), key=rank)
    return Finding(claim_id, found.mean, reason, found.n_seeds, found.interval, lowest)


def _cell(group: Sequence[Record]) -> Cell:
    newest = max(group, key=lambda record: record.utc)
    alike = [r for r in group if r.metrics["settings"] == newest.metrics["settings"]]
    alike.sort(key=lambda record: record.seed or 0)
    return Cell(tuple(alike), left_out=len(group) - len(alike))


def _name(point: Point) -> str:
    return " ".join(str(value) for value in point.values() if value is not None)
