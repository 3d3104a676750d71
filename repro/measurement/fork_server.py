"""Make the fork server end with its driver; it imports this module before any other.

Without it, the server would notice the end of its driver only after importing PyTorch, which takes
seconds.
"""

import os

from repro.core.processes import end_with_parent

DRIVER = "REPRO_DRIVER_PROCESS"
"""Environment variable that tells the server the number of the driver's process."""
SERVER: int | None = None
"""The number of the server's process, in its forks; unknown if another program started it."""

# taken out, since a command started by a fork has another driver
if driver := os.environ.pop(DRIVER, ""):
    SERVER = os.getpid()
    end_with_parent(int(driver))
