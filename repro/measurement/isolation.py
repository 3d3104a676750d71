"""Each point of a run in a process of its own.

Memory can only be measured in a process that has done nothing else, and importing torch and
transformers takes seconds: a fork server imports them once and every point starts as its fork. No
process outlives the one that runs the points, however that ends.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from repro.core.errors import ReproError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Processes:
    """Runs functions in fresh processes, some at a time."""

    def __init__(self, pool: ProcessPool) -> None:
        """Take pebble's pool."""
        self._pool = pool

    def submit(self, function: Callable[[Task], Result], task: Task) -> Future[Result]:
        """Run ``function(task)`` in a process of its own.

        The result is a ``ProcessExpired`` error if the process dies.
        """
        future: Future[Result] = self._pool.schedule(function, args=[task])
        return future


@contextmanager
def processes(*, workers: int, preload: Sequence[str]) -> Iterator[Processes]:
    """Offer processes while the block runs; what still runs then is killed.

    Args:
        workers: how many processes run at a time.
        preload: modules the fork server imports once, for all.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # pebble does not type its context parameter for fork servers
    pool: Any = ProcessPool(
        max_workers=workers, max_tasks=1, context=context, initializer=_end_with_driver
    )
    try:
        yield Processes(pool)
    finally:
        pool.stop()
        pool.join()


def run_isolated(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    preload: Sequence[str],
) -> Iterator[tuple[Task, Result]]:
    """Yield ``(task, function(task))`` as the tasks end, each run in a fresh process.

    Args:
        function: a function at the top level of a module.
        tasks: its arguments; small and picklable.
        workers: how many processes run at a time.
        preload: modules the fork server imports once, for all.

    Raises:
        ReproError: a process died, out of memory most often.
        Exception: what the function raised, as it is.
    """
    with processes(workers=workers, preload=preload) as pool:
        pending = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(pending):
            yield pending[future], _result(future.result, pending[future])


def _end_with_driver() -> None:
    """Have this process end when the one that runs the pool does, whatever it does by then."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    driver = multiprocessing.parent_process()  # the fork server lives as long as its forks
    assert driver is not None  # noqa: S101 - for the type checker: this is a worker
    driver.join()
    os._exit(1)


def _result(get: Callable[[], Result], task: object) -> Result:
    try:
        return get()
    except ProcessExpired as error:
        msg = (
            f"the process of {task} died with exit code {error.exitcode}, most often for lack of "
            "memory; what was done is kept: run again, with smaller points or fewer workers"
        )
        raise ReproError(msg) from error
