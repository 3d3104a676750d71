"""Switch off the check of transformers' models for rows that pack several sequences."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import masking_utils


@contextmanager
def unpacked() -> Iterator[None]:
    """Let transformers take every row for one sequence, as it does where it can see the positions.

    Whether several sequences are packed into a row it asks of the positions in every forward pass:
    a GPU is waited for, and of fake positions it cannot tell and makes an N x N mask against that,
    which a real step with SDPA has not.
    """
    original = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original
