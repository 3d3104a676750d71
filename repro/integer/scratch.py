"""Memory that is used again and again."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor


class Scratch:
    """One int8 buffer for what is needed for the length of one matrix product.

    A convolution's columns are its largest tensor by far. Given back to the operating system and
    asked for again in every pass they cost thousands of page faults, which took as long as the
    products themselves.
    """

    def __init__(self) -> None:
        self._buffer = torch.empty(0, dtype=torch.int8)

    def take(self, shape: Sequence[int], device: torch.device) -> Tensor:
        """Return an int8 tensor of unknown content, valid until the next call."""
        elements = prod(shape)
        if len(self._buffer) < elements or self._buffer.device != device:
            self._buffer = torch.empty(elements, dtype=torch.int8, device=device)
        return self._buffer[:elements].view(*shape)
