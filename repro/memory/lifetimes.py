"""Buffers and the operations that use them: how much is alive at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.memory.breakdown import MemoryBreakdown


@dataclass
class Buffer:
    """Memory that is written once as a whole, and free after its last use."""

    part: str
    """Field of ``MemoryBreakdown`` that it counts as."""
    size: int
    """Bytes."""
    first: int
    """Operation that writes it."""
    last: int
    """Last operation that reads or changes it."""


class Program:
    """Operations in order; a buffer is alive from the one that writes it to the last that uses it.

    An operation's inputs and output are alive together: it works in place only on what it is told
    to.
    """

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._operations = 0

    def write(self, part: str, size: int, reads: Iterable[Buffer | None]) -> Buffer:
        """Do an operation that writes a new buffer of ``size`` bytes; return the buffer.

        Args:
            part: field of ``MemoryBreakdown``.
            size: bytes.
            reads: what it reads; ``None`` stands for memory that is not counted here.
        """
        self.use(reads)
        buffer = Buffer(part, size, self._operations, self._operations)
        self._buffers.append(buffer)
        return buffer

    def use(self, buffers: Iterable[Buffer | None]) -> None:
        """Do an operation that reads or changes ``buffers`` in place."""
        self._operations += 1
        for buffer in buffers:
            if buffer is not None:
                buffer.last = self._operations

    def peak(self) -> MemoryBreakdown:
        """Return what is alive when most is, by part."""
        sizes = [0] * (self._operations + 2)  # changes of the total, then the total
        for buffer in self._buffers:
            sizes[buffer.first] += buffer.size
            sizes[buffer.last + 1] -= buffer.size
        moment = _argmax_of_sums(sizes)
        parts: dict[str, int] = {}
        for buffer in self._buffers:
            if buffer.first <= moment <= buffer.last:
                parts[buffer.part] = parts.get(buffer.part, 0) + buffer.size
        return MemoryBreakdown(**parts)


def _argmax_of_sums(changes: Sequence[int]) -> int:
    """Return the first place at which the running sum of ``changes`` is largest."""
    total, largest, place = 0, 0, 0
    for number, change in enumerate(changes):
        total += change
        if total > largest:
            largest, place = total, number
    return place
