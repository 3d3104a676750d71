"""Make the fork server end with its driver; it imports this module before any other.

Without it, the server would notice the end of its driver only after importing PyTorch, which takes
seconds.
"""

from repro.core.processes import end_with_parent

end_with_parent()
