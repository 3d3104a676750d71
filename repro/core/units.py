"""Bytes and ratios as people read them; records keep the raw numbers."""

import math

GB = 10**9
"""The MeZO paper's gigabyte: its 17 GB are 17e9 bytes."""

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(count: float) -> str:
    """Return ``count`` bytes in decimal units with three significant digits: ``14.4 GB``."""
    rounded = float(f"{count:.3g}")
    exponent = int(math.log10(abs(rounded)) // 3) if abs(rounded) >= 1 else 0
    exponent = min(exponent, len(_DECIMAL) - 1)
    return f"{rounded / 1000**exponent:g} {_DECIMAL[exponent]}"
