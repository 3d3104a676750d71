"""Format and parse bytes, durations and counts for people; records keep the raw numbers."""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from repro.core.errors import UsageError

GB = 10**9
"""The MeZO paper's gigabyte: its 17 GB are 17e9 bytes."""

KIB = 2**10
MIB = 2**20
"""The ElasticZO paper's megabyte."""

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_PREFIXES = ("k", "m", "g", "t", "p")


def format_bytes(count: float) -> str:
    """Return ``count`` bytes in decimal units with three significant digits: ``14.4 GB``."""
    # rounded before the unit is chosen, else 999,600 bytes would read 1e+03 kB
    rounded = float(f"{count:.3g}")
    exponent = int(math.log10(abs(rounded)) // 3) if abs(rounded) >= 1 else 0
    exponent = min(exponent, len(_DECIMAL) - 1)
    return f"{rounded / 1000**exponent:g} {_DECIMAL[exponent]}"


def format_binary_bytes(count: float) -> str:
    """Return ``count`` bytes in KiB, or from 1 MiB on in MiB, with four significant digits."""
    unit, name = (MIB, "MiB") if abs(count) >= MIB else (KIB, "KiB")
    return f"{count / unit:.4g} {name}"


def format_numbers(numbers: Iterable[int]) -> str:
    """Return whole numbers in ascending order, three or more in a row as a range: ``0, 2 to 4``."""
    parts: list[str] = []
    # in a row, a number and its place grow alike
    for _, row in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        found = [number for _, number in row]
        parts += [f"{found[0]} to {found[-1]}"] if len(found) > 2 else map(str, found)
    return ", ".join(parts)


def format_seconds(seconds: float) -> str:
    """Return a duration with its unit: ``4.2 s``, ``3 min``, ``2.5 h``."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def parse_bytes(name: str, text: str) -> float:
    """Return the bytes of ``16GB``, ``16GiB``, ``500 MB`` or a plain number; a GB is 10**9 bytes.

    Raises:
        UsageError: ``text`` has another form, or the number is below 1 or not finite.
    """
    powers = list(enumerate(_PREFIXES, start=1))
    scale = {"b": 1, **{unit: 1000**power for power, p in powers for unit in (p, f"{p}b")}}
    scale |= {unit: 1024**power for power, p in powers for unit in (f"{p}i", f"{p}ib")}
    return _parse(name, text, scale, "a size such as 16GB, 8GiB or 500MB")


def parse_count(name: str, text: str) -> float:
    """Return the number of ``7B``, ``350M``, ``1.5b`` or a plain number.

    Raises:
        UsageError: ``text`` has another form, or the number is below 1.
    """
    scale = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
    return _parse(name, text, scale, "a count such as 7B or 350M")


def _parse(name: str, text: str, scale: Mapping[str, float], form: str) -> float:
    number = r"(?:\d+(?:\.\d*)?|\.\d+)(?:e\+?\d+)?"
    found = re.fullmatch(rf"\s*({number})\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in {"", *scale}:
        raise UsageError(f"{name} = {text!r}: must be {form}")
    value = float(found[1]) * (scale[found[2]] if found[2] else 1)
    if not 1 <= value < math.inf:
        raise UsageError(f"{name} = {text!r}: must be at least 1 and finite; give {form}")
    return value
