"""Make the fork server end with its driver; it imports this module before any other.

It spends seconds on importing PyTorch and would not see before that the driver is gone.
"""

from repro.core.parent import end_with_parent

end_with_parent()
