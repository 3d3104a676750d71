"""Compute how many bytes are alive at once, from buffers and the operations that use them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from repro.memory.breakdown import MemoryBreakdown


@dataclass
class Buffer:
    """A buffer, written once as a whole and freed after its last use."""

    part: str
    """Field of ``MemoryBreakdown`` that it counts as."""
    size: int
    """Bytes."""
    first: int
    """Operation that writes it."""
    last: int
    """Last operation that reads or changes it."""


class Program:
    """Operations in order; a buffer is alive from its first operation to its last.

    An operation's inputs and output are alive together, except for inputs that it changes in place.
    """

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._operations = 0

    def write(self, part: str, size: int, reads: Iterable[Buffer | None]) -> Buffer:
        """Add an operation that writes a new buffer of ``size`` bytes; return the buffer.

        Args:
            part: field of ``MemoryBreakdown``.
            size: bytes.
            reads: the operation's inputs; ``None`` is memory not counted here.
        """
        self.use(reads)
        buffer = Buffer(part, size, self._operations, self._operations)
        self._buffers.append(buffer)
        return buffer

    def use(self, buffers: Iterable[Buffer | None]) -> None:
        """Add an operation that reads ``buffers`` or changes them in place."""
        self._operations += 1
        for buffer in buffers:
            if buffer is not None:
                buffer.last = self._operations

    def peak(self) -> MemoryBreakdown:
        """Return the memory at the peak, by part."""
        sizes = [0] * (self._operations + 2)  # the total's change at each operation
        for buffer in self._buffers:
            sizes[buffer.first] += buffer.size
            sizes[buffer.last + 1] -= buffer.size
        moment = np.argmax(np.cumsum(sizes))
        alive = [b for b in self._buffers if b.first <= moment <= b.last]
        return MemoryBreakdown.of((buffer.part, buffer.size) for buffer in alive)
