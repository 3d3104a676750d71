"""What a fork server imports before anything else: it ends with the process that started it.

It spends seconds on importing PyTorch and would not see before that the driver is gone.
"""

from repro.core.parent import end_with_parent

end_with_parent()
