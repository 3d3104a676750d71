"""Each point of a run in a process of its own.

Memory can only be measured in a process that has done nothing else, and importing torch and
transformers takes seconds: a fork server imports them once and every point starts as its fork.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from repro.core.errors import ReproError

Task = TypeVar("Task")
Result = TypeVar("Result")


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
        ReproError: a process died (out of memory, most often) or the function failed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # pebble does not type its context parameter for fork servers
    pool: Any = ProcessPool(max_workers=workers, max_tasks=1, context=context)
    try:
        pending = {pool.schedule(function, args=[task]): task for task in tasks}
        for future in as_completed(pending):
            yield pending[future], _result(future.result, pending[future])
    finally:
        pool.stop()
        pool.join()


def _result(get: Callable[[], Result], task: object) -> Result:
    try:
        return get()
    except ProcessExpired as error:
        msg = (
            f"the process of {task} died with exit code {error.exitcode}, most often for lack of "
            "memory; what was done is kept: run again, with smaller points or fewer workers"
        )
        raise ReproError(msg) from error
