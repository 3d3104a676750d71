"""Let Ctrl-C take effect between two passes over the weights, never within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back until the block is done.

    A ``KeyboardInterrupt`` in the middle of a pass would leave some weights perturbed and others
    not. Signals reach only the main thread, so other threads have nothing to hold back.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal held
        held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)
