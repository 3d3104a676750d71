"""SIGTERM raises an exception, as Ctrl-C does; a pass over weights ends before either is raised."""

import _signal  # type: ignore[import-not-found]  # typeshed has none
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived."""


_INITIALISE = {
    method.__code__
    for method in (ExtensionFileLoader.create_module, ExtensionFileLoader.exec_module)
}
"""What runs while an extension module is initialised. In C++ an exception may end the process there
(seen with Triton, which PyTorch imports)."""
_LATER_S = 0.02
_HELD_BACK = int(signal.SIGTERM), int(signal.SIGINT)


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


class uninterrupted:  # noqa: N801 - a context manager, used as a function
    """Hold SIGINT and SIGTERM back until the block is done.

    An exception in the middle of a pass would leave some weights perturbed and others not. Only a
    signal that a handler in Python awaits is held back, as no other can raise. Signals reach only
    the main thread, so other threads have nothing to hold back.
    """

    # a step of LeNet-5 takes about 0.2 ms: hence no generator, and _signal, whose functions take a
    # tenth of the time of signal's, which convert numbers to enumerations
    __slots__ = ("_handlers", "_held")

    def __enter__(self) -> None:
        self._handlers: list[tuple[int, Any]] = []
        self._held: list[int] = []
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _HELD_BACK:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    _signal.signal(number, self._hold)
        except BaseException:  # by the second signal, while only the first is held back
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            while self._handlers:
                _signal.signal(*self._handlers[-1])
                self._handlers.pop()
        finally:
            if self._handlers:  # the first signal given back has raised an exception
                self.__exit__()
            else:
                self._raise_held()

    def _hold(self, number: int, _frame: FrameType | None) -> None:
        self._held.append(number)

    def _raise_held(self) -> None:
        """Raise every signal that arrived, also if the handler of one raises an exception."""
        if self._held:
            try:
                signal.raise_signal(self._held.pop())
            finally:
                self._raise_held()
