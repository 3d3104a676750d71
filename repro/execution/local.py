"""Train runs in processes of this machine, as many at a time as its cores and memory allow."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from pebble import ProcessExpired

from repro.core.atomic import require_writable
from repro.core.errors import ReproError
from repro.core.leftovers import tidy
from repro.core.units import format_bytes
from repro.data import cache
from repro.data.catalog import load_set
from repro.execution.run_memory import run_bytes
from repro.execution.schedule import RunOutcome, need_engine, train_all
from repro.measurement.device import free_bytes, require_device
from repro.measurement.environment import Environment
from repro.measurement.isolation import Submit, processes
from repro.ondevice import build
from repro.training.run import NetworkRun
from repro.training.store import CheckpointStore
from repro.training.task import vision_task
from repro.training.trainer import TrainingTask, train_run

GPUS_PER_RUN = 1 / 16
"""Default share of a GPU for each run: LeNet-5 uses a few percent of one."""


@dataclass(frozen=True)
class LocalExecutor:
    """Trains each run in a process of its own, with a fixed number of threads.

    The processes are not pinned to cores, since two sweeps on one machine would pin theirs to the
    same cores. They inherit this process's core restriction (``taskset``).
    """

    environment: Environment
    workers: int
    """Maximum number of concurrent processes."""
    threads: int = 1
    """Threads of each process."""
    memory: int | None = None
    """Memory limit in bytes for all processes together; by default the free memory at the start."""
    gpus_per_run: float = GPUS_PER_RUN
    """Share of the GPU for each run that uses it."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield each run with its metrics as it ends; see ``Executor``.

        Raises:
            UsageError: the device does not exist, or a data set that only the user can fetch is not
                in the cache.
            EngineError: the on-device engine is requested but not built.
            ReproError: runs failed, or the cache cannot be written.
        """
        for device in {run.device for run in runs}:
            require_device(device)
        if need_engine(runs):
            # fails here if it is not built, before any process starts
            build.load()
        store = CheckpointStore.of(self.environment, self.threads)
        require_writable(store.directory)
        missing = (run for run in runs if store.progress(run).metrics is None)
        begun = [one for run in missing for one in (run.start, run) if one]
        sets = dict.fromkeys(vision_task(run.task).dataset for run in begun)
        for name in sets:
            cache.require_available(name)  # before anything runs
        tidy(store.directory)
        # this module brings all that trains a network, imported once for all processes
        with processes(workers=self.workers, preload=["repro.execution.local"]) as submit:
            for name in sets:
                if not cache.is_cached(load_set(name)):
                    # in a process of its own: decoding takes more memory than a run is granted
                    with contextlib.suppress(ReproError, ProcessExpired):  # its runs will tell
                        submit(cache.fetch, name).result()
            pool = LocalPool(self, store, submit)
            yield from train_all(runs, store, pool, self.environment.code)


class LocalPool:
    """The processes and their memory; see ``repro.execution.schedule.WorkerPool``."""

    def __init__(self, executor: LocalExecutor, store: CheckpointStore, submit: Submit) -> None:
        """Start without any running process."""
        self._store, self._submit = store, submit
        self._workers, self._share = executor.workers, executor.gpus_per_run
        self._memory = free_bytes() if executor.memory is None else executor.memory
        self._code = executor.environment.code
        self._running: dict[Future[dict[str, Any]], NetworkRun] = {}

    def refusal(self, run: NetworkRun) -> str:
        """Return a message if ``run`` needs more memory than the limit, else an empty string."""
        needed = run_bytes(run)
        if needed <= self._memory:
            return ""
        return (
            f"it takes up to {format_bytes(needed)} of memory, and runs may take "
            f"{format_bytes(self._memory)} here; free some, use another machine, or allow more "
            "with repro sweep --memory"
        )

    def has_room(self, run: NetworkRun) -> bool:
        """Return whether a process, enough memory and a share of the GPU are free."""
        running = list(self._running.values())
        on_gpu = sum(other.device == "cuda" for other in (*running, run))
        return (
            len(running) < self._workers
            and sum(map(run_bytes, (*running, run))) <= self._memory
            and on_gpu * self._share <= 1
        )

    def start(self, run: NetworkRun) -> None:
        """Start to train ``run``."""
        task = TrainingTask(run, self._store, self._code)
        self._running[self._submit(train_run, task)] = run

    def wait(self) -> list[RunOutcome]:
        """Wait until runs end and return their outcomes."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        outcomes = []
        for future in done:
            run, error = self._running.pop(future), future.exception()
            if error is None:
                outcomes.append(RunOutcome(run, future.result()))
            elif isinstance(error, ProcessExpired):
                problem = (
                    f"its process died with exit code {error.exitcode}, by lack of memory or a "
                    "signal"
                )
                outcomes.append(RunOutcome(run, problem=problem, lost=True))
            else:
                traceback = getattr(error, "traceback", "")  # attached by pebble
                outcomes.append(RunOutcome.failed(run, error, traceback))
        return outcomes
