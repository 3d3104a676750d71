"""Switch off transformers' check for rows that pack several sequences."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import masking_utils


@contextmanager
def unpacked() -> Iterator[None]:
    """Make transformers treat every row as one sequence inside the block.

    In every forward pass transformers reads the positions to see whether a row packs several
    sequences. On a GPU this waits for the device. Fake positions cannot be read, so it builds a
    mask [N, N] as a precaution, which a real step with SDPA does not have.
    """
    original = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original
