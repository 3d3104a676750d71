"""Cells in processes of this machine: as many at a time as it has cores and memory for."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from pebble import ProcessExpired

from repro.core.errors import ReproError
from repro.core.units import format_bytes
from repro.data import cache
from repro.execution.cell_memory import cell_bytes
from repro.execution.schedule import Ended, need_engine, run_cells
from repro.measurement.device import require_device
from repro.measurement.environment import Environment
from repro.measurement.free_memory import free_bytes
from repro.measurement.isolation import Processes, processes
from repro.ondevice import build
from repro.training.cell import Cell
from repro.training.cell_store import CellStore
from repro.training.problem import find
from repro.training.run_cell import Task, run_cell
from repro.training.tidy import tidy

GPUS_PER_CELL = 1 / 16
"""Share of a GPU that a cell takes by default: LeNet-5 keeps one busy for a few percent."""


@dataclass(frozen=True)
class LocalExecutor:
    """Runs each cell in a process of its own, with a fixed number of threads.

    The processes are not bound to cores: two sweeps on a machine would take the same ones. Those
    that this process is kept to (``taskset``) hold for them, too.
    """

    environment: Environment
    workers: int
    """Processes at a time, at most."""
    threads: int = 1
    """Threads of each."""
    memory: int | None = None
    """Bytes that they may take together; by default what is free when the run begins."""
    gpus_per_cell: float = GPUS_PER_CELL
    """Share of the GPU that a cell on it takes."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each cell with its metrics as they end; see ``Executor``.

        Raises:
            UsageError: there is no such device, or a data set that only the user can fetch is not
                in the cache.
            EngineError: the on-device engine is asked for and not built.
            ReproError: cells failed.
        """
        for device in {cell.device for cell in cells}:
            require_device(device)
        if need_engine(cells):
            build.load()
        store = CellStore.of(self.environment, self.threads)
        require_data(cell for cell in cells if store.progress(cell).metrics is None)
        tidy(store.directory)
        with processes(workers=self.workers, preload=["repro.execution.local"]) as pool:
            yield from run_cells(cells, store, LocalPool(self, store, pool))


class LocalPool:
    """The processes, and what they take; see ``repro.execution.schedule.Pool``."""

    def __init__(self, executor: LocalExecutor, store: CellStore, pool: Processes) -> None:
        """Begin with nothing running."""
        self._store, self._pool = store, pool
        self._workers, self._share = executor.workers, executor.gpus_per_cell
        self._memory = free_bytes() if executor.memory is None else executor.memory
        self._code = executor.environment.code
        self._running: dict[Future[dict[str, Any]], Cell] = {}

    def refusal(self, cell: Cell) -> str:
        """Return that ``cell`` takes more memory than there is, if it does."""
        needed = cell_bytes(cell)
        if needed <= self._memory:
            return ""
        return (
            f"it takes up to {format_bytes(needed)} of memory, and cells may take "
            f"{format_bytes(self._memory)} here; free some, or use another machine or --memory"
        )

    def has_room(self, cell: Cell) -> bool:
        """Return whether there is a process, memory and a share of the GPU left."""
        running = list(self._running.values())
        on_gpu = sum(other.device == "cuda" for other in (*running, cell))
        return (
            len(running) < self._workers
            and sum(map(cell_bytes, (*running, cell))) <= self._memory
            and on_gpu * self._share <= 1
        )

    def begin(self, cell: Cell) -> None:
        """Begin to run ``cell``."""
        task = Task(cell, self._store, self._code)
        self._running[self._pool.submit(run_cell, task)] = cell

    def wait(self) -> list[Ended]:
        """Wait until cells end and return them."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return [_ended(self._running.pop(future), future.exception()) for future in done]


def require_data(cells: Iterable[Cell]) -> None:
    """Raise ``UsageError`` before anything runs if a cell's data set needs the user to fetch it."""
    for name in dict.fromkeys(find(cell.problem).dataset for cell in cells):
        cache.require_available(name)


def _ended(cell: Cell, error: BaseException | None) -> Ended:
    if error is None:
        return Ended(cell)
    if isinstance(error, ProcessExpired):
        problem = f"its process died with exit code {error.exitcode}, by lack of memory or a signal"
        return Ended(cell, problem, lost=True)
    if isinstance(error, ReproError):
        return Ended(cell, str(error))
    sys.stderr.write(getattr(error, "traceback", ""))  # pebble's: that of the process
    return Ended(cell, f"{type(error).__name__}: {error}")
