"""Checks of user input; each error names the value, the limit and the way out."""

import difflib
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from repro.core.errors import UsageError

CLOUD_POINTS = 1024
"""Number of points in each cloud, the same in every point-cloud data set."""
LARGEST_SEED = 2**32 - 1


def require_whole(name: str, value: object, least: int = 0, most: float = math.inf) -> int:
    """Return ``value`` if it is an integer within the limits, else raise ``UsageError``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        # the value is cut, since a damaged file can hold one of any length
        msg = f"{name} = {value!r:.40}: must be a whole number {limits}"
        raise UsageError(msg)
    return value


def require_positive_int(name: str, value: object) -> int:
    """Return ``value`` if it is an integer of at least 1, else raise ``UsageError``."""
    return require_whole(name, value, 1)


def _is_finite(value: object) -> bool:
    """Return whether ``value`` is a finite number; True and text are none."""
    try:
        return not isinstance(value, bool) and math.isfinite(value)  # type: ignore[arg-type]
    except TypeError:
        return False


def require_positive(name: str, value: float) -> float:
    """Return ``value`` if it is finite and above 0, else raise ``UsageError``."""
    if not _is_finite(value) or value <= 0:
        msg = f"{name} = {value!r}: must be a finite number above 0"
        raise UsageError(msg)
    return value


def require_not_negative(name: str, value: float) -> float:
    """Return ``value`` if it is finite and at least 0, else raise ``UsageError``."""
    if not _is_finite(value) or value < 0:
        msg = f"{name} = {value!r}: must be a finite number of at least 0"
        raise UsageError(msg)
    return value


def require_choice(name: str, value: str, allowed: Collection[str]) -> str:
    """Return ``value`` if it is one of ``allowed``, else raise ``UsageError``."""
    if value not in allowed:
        msg = f"{name} = {value!r}: must be one of {', '.join(allowed)}"
        raise UsageError(msg)
    return value


def require_distinct(name: str, values: Collection[object]) -> None:
    """Raise ``UsageError`` if ``values`` is empty or holds anything twice."""
    if not values:
        msg = f"{name} is empty: give at least one value"
        raise UsageError(msg)
    if len(set(values)) != len(values):
        msg = f"{name} = {list(values)!r}: each value may be given only once"
        raise UsageError(msg)


def require_each(
    name: str, values: Collection[Any], check: Callable[[str, Any], object], label: str = ""
) -> None:
    """Raise ``UsageError`` unless ``values`` are distinct, at least one, and all pass ``check``.

    Args:
        name: name of the setting.
        values: its values.
        check: one of the functions above; it gets a name and a value.
        label: name of a single value, if it has another one.
    """
    require_distinct(name, values)
    for value in values:
        check(label or name, value)


def require_names(name: str, values: Collection[str], allowed: Collection[str]) -> None:
    """Raise ``UsageError`` unless ``values`` are some of ``allowed``, each at most once."""
    require_distinct(name, values)
    for value in values:
        require_choice(name, value, allowed)


def require_points(name: str, value: object) -> int:
    """Return ``value`` if clouds have that many points, else raise ``UsageError``."""
    points = require_positive_int(name, value)
    if points > CLOUD_POINTS:
        msg = f"{name} = {points}: the clouds have {CLOUD_POINTS} points, so at most {CLOUD_POINTS}"
        raise UsageError(msg)
    return points


def require_seed(value: object) -> int:
    """Return ``value`` if it can seed a run, else raise ``UsageError``."""
    return require_whole("seed", value, 0, LARGEST_SEED)


def require_seeds(values: Collection[object]) -> None:
    """Raise ``UsageError`` unless ``values`` are distinct seeds, at least one."""
    require_distinct("seeds", values)
    for value in values:
        require_seed(value)


def unknown(kind: str, name: str, known: Iterable[str], elsewhere: str) -> str:
    """Return a message that suggests at most three similar names, or says where all are listed.

    Args:
        kind: the noun before the name, as in ``artifact``.
        name: the unknown name.
        known: the valid names.
        elsewhere: the command that lists all names, as in ``repro list``.
    """
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{elsewhere} lists all"
    return f"no {kind} named {name!r}; {hint}"
