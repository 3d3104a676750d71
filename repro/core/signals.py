"""SIGTERM raises an exception, as Ctrl-C does; a pass over weights ends before either is raised."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


@contextmanager
def termination_raised() -> Iterator[None]:
    """Raise ``Terminated`` where the block is when SIGTERM arrives.

    Python delivers signals to the main thread only. A signal ignored by the caller stays ignored.
    """
    before = signal.getsignal(signal.SIGTERM)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before in (signal.SIG_IGN, None):
        yield
        return

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block is done.

    An exception in the middle of a pass would leave some weights perturbed and others not.
    """
    with _held_back(signal.SIGTERM), _held_back(signal.SIGINT):
        yield


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Hold one signal back, if a handler in Python, which may raise, awaits it.

    Signals reach only the main thread, so other threads have nothing to hold back.
    """
    handler = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal held
        held = True

    signal.signal(number, hold)
    try:
        yield
    finally:
        signal.signal(number, handler)
        if held:
            signal.raise_signal(number)
