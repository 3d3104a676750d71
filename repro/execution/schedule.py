"""The order in which cells are run, and what becomes of those that fail; wherever they run."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from repro.core.errors import ReproError
from repro.core.progress import progress
from repro.execution.labels import described
from repro.training.cell import Cell
from repro.training.cell_store import CellStore

ATTEMPTS = 3
"""How often a cell is begun at most; what it did before it was lost is not done again."""


@dataclass(frozen=True)
class Ended:
    """A cell that a pool runs no longer."""

    cell: Cell
    problem: str = ""
    """Why it did not come to its end; empty if it did."""
    lost: bool = False
    """Whether its process or machine was lost, so that another attempt may do better."""


class Pool(Protocol):
    """Runs several cells at a time and leaves their states in the store."""

    def refusal(self, cell: Cell) -> str:
        """Return why ``cell`` can never be run here, empty if it can."""

    def has_room(self, cell: Cell) -> bool:
        """Return whether ``cell`` can begin now; always, if nothing is running."""

    def begin(self, cell: Cell) -> None:
        """Begin to run ``cell``."""

    def wait(self) -> list[Ended]:
        """Wait until cells end, one at least, and return them."""


class CellsFailedError(ReproError):
    """Some cells did not come to their end; all others did."""

    def __init__(self, problems: dict[Cell, str]) -> None:
        """List the cells with their problems."""
        self.problems = problems
        lines = [f"  {described(cell)}: {problem}" for cell, problem in problems.items()]
        super().__init__(
            f"{len(lines)} of the cells failed; what was done is kept, and the same command goes "
            "on with them alone:\n" + "\n".join(lines)
        )


def run_cells(
    cells: Sequence[Cell], store: CellStore, pool: Pool
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield each cell with its metrics, first those that ``store`` has already.

    A cell to start from is run before those that start from it. A cell whose process or machine is
    lost is begun again, ``ATTEMPTS`` times in all; one that fails by itself is not.

    Raises:
        CellsFailedError: after all others have been yielded.
    """
    wanted = dict.fromkeys(cells)
    with progress("training", len(wanted)) as shown:
        missing = []
        for cell in wanted:
            metrics = store.progress(cell).metrics
            if metrics is None:
                missing.append(cell)
            else:
                shown.advance("done before")
                yield cell, metrics
        training = _Training(store, pool)
        for cell in training.run(missing):
            if cell in wanted:
                shown.advance(cell.label())
                yield cell, training.metrics(cell)
    if training.problems:
        raise CellsFailedError(training.problems)


def need_engine(cells: Iterable[Cell]) -> bool:
    """Return whether the on-device engine trains any of ``cells``, or one that they start from."""
    return any(each and each.engine == "native" for cell in cells for each in (cell, cell.start))


class _Training:
    """The cells that wait, those that run, and those that failed."""

    def __init__(self, store: CellStore, pool: Pool) -> None:
        self.store, self.pool = store, pool
        self.waiting: dict[Cell, None] = {}
        """In the order in which they are to begin."""
        self.running: set[Cell] = set()
        self.attempts: Counter[Cell] = Counter()
        self.problems: dict[Cell, str] = {}

    def run(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Yield each cell, and each that one of them starts from, when it has been run."""
        for cell in cells:
            self._add(cell)
        self._begin()
        while self.running:
            for ended in self.pool.wait():
                self.running.remove(ended.cell)
                if ended.problem:
                    self._failed(ended)
                else:
                    yield ended.cell
            self._begin()

    def metrics(self, cell: Cell) -> dict[str, Any]:
        """Return what ``store`` has of a cell that was run."""
        metrics = self.store.progress(cell).metrics
        if metrics is None:
            msg = f"the state of {described(cell)} was removed while it was read; run again"
            raise ReproError(msg)
        return metrics

    def _add(self, cell: Cell) -> None:
        if cell.start and self.store.progress(cell.start).metrics is None:
            self._add(cell.start)
        self.waiting[cell] = None

    def _begin(self) -> None:
        """Begin all that can."""
        for cell in list(self.waiting):
            start = cell.start
            if start in self.problems:
                self._give_up(cell, f"the run it starts from, {described(start)}, failed")
            elif refusal := self.pool.refusal(cell):
                self._give_up(cell, refusal)
            elif start not in self.waiting and start not in self.running and self._has_room(cell):
                del self.waiting[cell]
                self.attempts[cell] += 1
                self.pool.begin(cell)
                self.running.add(cell)

    def _has_room(self, cell: Cell) -> bool:
        return not self.running or self.pool.has_room(cell)

    def _failed(self, ended: Ended) -> None:
        cell = ended.cell
        if ended.lost and self.attempts[cell] < ATTEMPTS:
            sys.stderr.write(f"  {cell.label()}: {ended.problem}; begun again\n")
            self.waiting = {cell: None, **self.waiting}
            return
        times = f" ({self.attempts[cell]} attempts)" if ended.lost else ""
        self._give_up(cell, ended.problem + times)

    def _give_up(self, cell: Cell, problem: str) -> None:
        self.waiting.pop(cell, None)
        self.problems[cell] = problem
        sys.stderr.write(f"  {cell.label()}: failed: {problem}\n")
