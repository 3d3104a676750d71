"""What a model of transformers must be told where its tensors have no values."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import masking_utils


@contextmanager
def unpacked() -> Iterator[None]:
    """Let transformers take every row for one sequence, as it does where it can see the positions.

    Of fake positions it cannot tell whether several sequences are packed into a row, and makes an
    N x N mask against that, which a real step with SDPA has not.
    """
    original = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original
