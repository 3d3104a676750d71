"""Processes that end with the one that started them, at once and however that ends."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None
"""The C library, opened here since a process just forked should open nothing."""


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; on Linux alone.

    A process in the middle of a long call into C, such as an import of PyTorch, cannot see that its
    parent is gone, and would go on for seconds.
    """
    if _LIBRARY is None:
        return
    parent = os.getppid()
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)
