"""Run each point in its own process.

Memory can only be measured in a fresh process, but importing torch and transformers takes seconds.
Therefore a fork server imports them once, and every point runs in a fork of it. No process outlives
the driver, the process that runs the points, even if the driver is killed. Only the driver handles
Ctrl-C: it ends the others, which neither see the signal nor print anything.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from repro.core.errors import ReproError
from repro.core.processes import end_with_parent, environment_set, same_package
from repro.measurement.fork_server import DRIVER, SERVER

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
Submit = Callable[[Callable[..., Any], Any], Future[Any]]

COSTLY = ["torch._dynamo"]
"""Modules that every fork server imports. The first optimizer of a process imports this one, which
takes two to three seconds."""


@contextmanager
def processes(*, workers: int, preload: Sequence[str]) -> Iterator[Submit]:
    """Offer to run functions in fresh processes; at the end of the block, kill those still running.

    The context gives a function ``submit``. It takes a module-level function and its argument, and
    returns the future of the result. The future holds a ``ProcessExpired`` error if the process
    dies.

    Args:
        workers: how many processes run at a time.
        preload: modules the fork server imports once, for all.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["repro.measurement.fork_server", *preload, *COSTLY])
    _start_fork_server()
    others = set(multiprocessing.active_children())  # not of this pool, so not to be killed
    # pebble does not type its context parameter for fork servers
    pool: Any = ProcessPool(max_workers=workers, max_tasks=1, context=context, initializer=_begin)

    def submit(function: Callable[[Task], Outcome], task: Task) -> Future[Outcome]:
        future: Future[Outcome] = pool.schedule(function, args=[task])
        return future

    try:
        yield submit
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()  # pebble would wait up to three seconds for each of them
        if isinstance(error, KeyboardInterrupt):
            # since pebble would wait for the server's imports; a new pool starts another
            server: Any = forkserver._forkserver
            if server._forkserver_pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server._forkserver_pid, signal.SIGKILL)
        raise
    finally:
        pool.stop()
        pool.join()


def _start_fork_server() -> None:
    """Start the fork server unless it runs; it and its forks ignore Ctrl-C.

    A child still importing modules would answer Ctrl-C with a traceback. The resource tracker
    removes the semaphores of a killed driver, and its warning about that is switched off.
    """
    with environment_set(same_package()):
        with environment_set({"PYTHONWARNINGS": "ignore:resource_tracker"}):
            resource_tracker.ensure_running()  # first, since it unblocks the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with environment_set({DRIVER: str(os.getpid())}):
                forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_isolated(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    workers: int,
    preload: Sequence[str],
) -> Iterator[tuple[Task, Outcome]]:
    """Yield ``(task, function(task))`` as the tasks end, each run in a fresh process.

    Args:
        function: a function at the top level of a module.
        tasks: its arguments; small and picklable.
        workers: how many processes run at a time.
        preload: modules the fork server imports once, for all.

    Raises:
        ReproError: a process died, out of memory most often.
        Exception: the error that the function raised.
    """
    with processes(workers=workers, preload=preload) as submit:
        pending: dict[Future[Outcome], Task] = {submit(function, task): task for task in tasks}
        for future in as_completed(pending):
            try:
                result = future.result()
            except ProcessExpired as error:
                raise ReproError(
                    f"the process of {pending[future]} died with exit code {error.exitcode}, most "
                    "often because memory ran out. Progress is saved; run again with smaller "
                    "points or fewer workers"
                ) from error
            yield pending[future], result


def _begin() -> None:
    """Prepare this forked process: it ends with the driver, even in the middle of its work.

    On Linux the kernel ends the fork server, which is this process's parent, with the driver;
    elsewhere a thread of this process waits for the driver's end.
    """
    gc.freeze()  # measuring collects garbage often; the modules of the fork server are left out

    def wait_and_end() -> None:
        driver = multiprocessing.parent_process()  # the fork server lives as long as its forks
        assert driver is not None  # noqa: S101 - for the type checker: this is a worker
        driver.join()
        os._exit(1)

    end_with_parent(SERVER or os.getppid())
    threading.Thread(target=wait_and_end, daemon=True).start()
