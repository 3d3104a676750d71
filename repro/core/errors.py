"""User errors, and the exit status of each."""


class ReproError(Exception):
    """A failure to report to the user in one message, without a traceback."""

    exit_code = 1


class UsageError(ReproError):
    """A wrong argument; the message names the value, the limit and the way out."""

    exit_code = 2


class UnknownRunsError(ReproError):
    """In a dry run, the next training runs depend on the results of missing runs."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether PyTorch raised ``error`` because a device or the host lacks memory."""
    import torch

    # the host's allocator has no error type of its own
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
