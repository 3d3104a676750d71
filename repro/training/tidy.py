"""Removes checkpoints and cached results that no run will read again."""

import contextlib
import time
from pathlib import Path

_HOUR_S = 3600
_TEMPORARY_S = _HOUR_S
"""A file that a killed run was writing; the writing itself takes seconds."""
_OTHER_CODE_S = 30 * 24 * _HOUR_S
"""A state under other code, versions or machines: they may come back, but hardly after a month."""


def tidy(directory: Path) -> None:
    """Remove stale temporary files of all runs, and old states beside ``directory``, never in it.

    Args:
        directory: states of the present code, versions and machine; those of others lie beside it.
    """
    now = time.time()
    for path in directory.parent.glob("*/*"):
        if path.name.startswith("."):
            limit = _TEMPORARY_S
        elif path.parent != directory:
            limit = _OTHER_CODE_S
        else:
            continue
        with contextlib.suppress(OSError):  # another run may have removed it, or own it
            if now - path.stat().st_mtime > limit:
                path.unlink()
