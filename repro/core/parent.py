"""End a process as soon as the process that started it ends, for any reason."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None
"""The C library, opened here since a process just forked should open nothing."""


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; works on Linux only.

    A process in the middle of a long call into C, such as an import of PyTorch, cannot see that its
    parent is gone, and would keep running for seconds.
    """
    if _LIBRARY is None:
        return
    parent = os.getppid()
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)
