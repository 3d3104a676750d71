"""SIGTERM raises an exception, as Ctrl-C does; a pass over weights ends before either is raised."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


_INITIALISE = {
    method.__code__
    for method in (ExtensionFileLoader.create_module, ExtensionFileLoader.exec_module)
}
"""What runs while an extension module is initialised. In C++ an exception may end the process there
(seen with Triton, which PyTorch imports)."""
_LATER_S = 0.02


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` where the block is at SIGINT, and ``Terminated`` at SIGTERM.

    If an extension module is being initialised, it is raised afterwards. Python delivers signals to
    the main thread only. A signal ignored by the caller stays ignored.
    """
    with _raised(signal.SIGINT, KeyboardInterrupt), _raised(signal.SIGTERM, Terminated):
        yield


@contextmanager
def _raised(number: signal.Signals, kind: type[KeyboardInterrupt]) -> Iterator[None]:
    before = signal.getsignal(number)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before in (signal.SIG_IGN, None):
        yield
        return

    def interrupt(_number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code in _INITIALISE:
                again = threading.Timer(_LATER_S, os.kill, (os.getpid(), number))
                again.daemon = True
                again.start()
                return
            frame = frame.f_back
        raise kind

    signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


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
