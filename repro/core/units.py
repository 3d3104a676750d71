"""Bytes and ratios as people read them; records keep the raw numbers."""

import math

GB = 10**9
"""The MeZO paper's gigabyte: its 17 GB are 17e9 bytes."""

KIB = 2**10
MIB = 2**20
"""The ElasticZO paper's kilobyte and megabyte."""

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(count: float) -> str:
    """Return ``count`` bytes in decimal units with three significant digits: ``14.4 GB``."""
    rounded = float(f"{count:.3g}")
    exponent = int(math.log10(abs(rounded)) // 3) if abs(rounded) >= 1 else 0
    exponent = min(exponent, len(_DECIMAL) - 1)
    return f"{rounded / 1000**exponent:g} {_DECIMAL[exponent]}"


def format_binary_bytes(count: float) -> str:
    """Return ``count`` bytes in KiB, or from 1 MiB on in MiB, with four significant digits."""
    unit, name = (MIB, "MiB") if abs(count) >= MIB else (KIB, "KiB")
    return f"{count / unit:.4g} {name}"
