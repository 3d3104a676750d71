"""What an artifact that trains hands its cells to."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from repro.measurement.environment import Environment
from repro.training.cell import Cell


class Executor(Protocol):
    """Runs cells on some machines; the artifact need not know which."""

    @property
    def environment(self) -> Environment:
        """What those machines are, all of them."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each cell with its curves and counts, as metrics, as they end.

        Their states are kept after every epoch, so that what was done is done for good.

        Raises:
            UsageError: the machines cannot run a cell at all.
            ReproError: cells failed; the others have been run and yielded by then.
        """
