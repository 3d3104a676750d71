"""How many of the perturbed weights meet a clip, so that they do not come back in place.

With ``restore="exact"`` the same weights are counted, those that would not have come back.
"""

from collections.abc import Iterator, Sequence

from repro.artifacts.elasticzo_int8_choices.choices import DEFAULTS, RESTORE
from repro.claims.elasticzo import DATASETS
from repro.claims.trained import Cell, Cells
from repro.measurement.records import Record


def restored(records: Sequence[Record]) -> Iterator[tuple[str, Cell]]:
    """Yield the cells that differ in the restore alone, each with its answer."""
    cells = Cells(records)
    changes = {RESTORE.default: {}, **RESTORE.others}
    for dataset in DATASETS:
        for method in RESTORE.methods:
            for answer, changed in changes.items():
                point = {"dataset": dataset, "method": method, **DEFAULTS, **changed}
                if (cell := cells.get(point)) is not None:
                    yield answer, cell


def shares(cell: Cell) -> list[float]:
    """Return the share of each epoch, in per cent of all weights perturbed in all its steps.

    It is over all seeds, and ends where the first one does.
    """
    seeds = [record.metrics["restores"] for record in cell.records]
    return [_share(epoch) for epoch in zip(*seeds, strict=False)]


def whole_share(cell: Cell) -> float:
    """Return the share over all epochs and seeds, in per cent."""
    return _share([epoch for record in cell.records for epoch in record.metrics["restores"]])


def _share(counts: Sequence[dict[str, int]]) -> float:
    inexact: int = sum(count["inexact"] for count in counts)
    weights: int = sum(count["weights"] for count in counts)
    return 100 * inexact / weights
