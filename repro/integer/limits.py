"""The ranges of integer settings; nothing heavy is imported, as configurations check them too."""

from typing import Annotated

from repro.core.errors import UsageError
from repro.core.validation import is_finite, require_whole

LARGEST = 127
"""Largest magnitude of a rounded value: the clip is symmetric and excludes -128."""
MAGNITUDE_BITS = 7
"""B, the bits of an int8 magnitude."""


def check_r_max(name: str, r_max: object) -> None:
    """Raise ``UsageError`` unless training with r_max is possible.

    With r_max = 1 every product g z has R = 0, and NITI rounds it to zero, so no weight would
    change.
    """
    require_whole(name, r_max, 2, LARGEST)


def check_p_zero(name: str, p_zero: float) -> None:
    """Raise ``UsageError`` unless some entries of the perturbation are kept."""
    if not is_finite(p_zero) or not 0 <= p_zero <= 1 - 2**-16:
        msg = f"{name} = {p_zero!r}: must be from 0 to 1 - 2^-16, so that entries are left"
        raise UsageError(msg)


def check_bits(name: str, bits: object) -> None:
    """Raise ``UsageError`` unless ``bits`` is a possible bit width of a gradient."""
    require_whole(name, bits, 0, MAGNITUDE_BITS - 1)


RMax = Annotated[int, check_r_max]
PZero = Annotated[float, check_p_zero]
Bits = Annotated[int, check_bits]
