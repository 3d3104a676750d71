"""Remove checkpoints and cached results that no run will read again."""

import contextlib
import time
from pathlib import Path

from repro.core.leftovers import sweep

_OTHER_CODE_S = 30 * 24 * 3600
"""Age limit of states under other code, versions or machines, which hardly return after a month."""


def tidy(directory: Path) -> None:
    """Remove leftovers of killed runs, and old states next to ``directory`` but not in it.

    Args:
        directory: states of the present code, versions and machine; others are next to it.
    """
    now = time.time()
    for store in directory.parent.glob("*/"):
        sweep(store, ".+")
        if store == directory:
            continue
        for path in store.iterdir():
            with contextlib.suppress(OSError):  # another run may have removed it, or may own it
                if not path.name.startswith(".") and now - path.stat().st_mtime > _OTHER_CODE_S:
                    path.unlink()
