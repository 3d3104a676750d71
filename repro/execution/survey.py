"""What a sweep has done and what is left, without doing any of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from repro.core.errors import ReproError
from repro.execution.labels import described
from repro.measurement.environment import Environment
from repro.training.cell import Cell
from repro.training.cell_store import CellStore


class UnknownCellsError(ReproError):
    """Which cells come next depends on some that have not been run."""


@dataclass
class Survey:
    """Takes the place of an executor and only looks at the cells."""

    environment: Environment
    threads: int = 1
    seen: dict[Cell, str] = field(default_factory=dict)
    """Each cell, and ``done``, ``begun, K of N epochs`` or ``to do``."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield the cells that are done.

        Raises:
            UnknownCellsError: some are not.
        """
        store = CellStore.of(self.environment, self.threads)
        missing = 0
        for cell in dict.fromkeys(cells):
            if cell.start:
                self._see(cell.start, store)
            metrics = self._see(cell, store)
            if metrics is None:
                missing += 1
            else:
                yield cell, metrics
        if missing:
            msg = f"{missing} cells are not done"
            raise UnknownCellsError(msg)

    def lines(self) -> list[str]:
        """Return a line for each cell."""
        return [f"{status:<28} {described(cell)}" for cell, status in self.seen.items()]

    def _see(self, cell: Cell, store: CellStore) -> dict[str, Any] | None:
        progress = store.progress(cell)
        if progress.metrics is not None:
            self.seen[cell] = "done"
        elif progress.epochs:
            self.seen[cell] = f"begun, {progress.epochs} of {cell.epochs} epochs"
        else:
            self.seen[cell] = "to do"
        return progress.metrics
