"""Handle SIGTERM as Ctrl-C: clean up, then exit."""

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
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
