"""Checks of user input; each error names the value, the limit and the way out."""

import difflib
import math
from collections.abc import Collection, Iterable
from dataclasses import fields
from functools import cache, partial
from operator import index
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from repro.core.errors import UsageError

CLOUD_POINTS = 1024
"""Number of points in each cloud, the same in every point-cloud data set."""
ANY_NUMBER = object()
"""Marks a tuple that may be empty and may hold a value twice."""


def _whole(value: object) -> int | None:
    """Return ``value`` as Python's ``int`` if it is a whole number, also of NumPy or PyTorch."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_whole(name: str, value: object, least: int = 0, most: float = math.inf) -> int:
    """Return ``value`` as an ``int`` if it is one within the limits, else raise ``UsageError``."""
    whole = _whole(value)
    if whole is None or not least <= whole <= most:
        limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        # the value is cut, since a damaged file can hold one of any length
        raise UsageError(f"{name} = {value!r:.40}: must be a whole number {limits}")
    return whole


def whole_seed(seed: object) -> int:
    """Return a seed as Python's ``int``, else raise ``UsageError``."""
    whole = _whole(seed)
    if whole is None or not -(1 << 63) <= whole < 1 << 64:
        raise UsageError(f"seed = {seed!r}: must be a whole number from -2^63 to 2^64 - 1")
    return whole


def require_positive_int(name: str, value: object) -> int:
    """Return ``value`` if it is an integer of at least 1, else raise ``UsageError``."""
    return require_whole(name, value, 1)


def is_finite(value: object) -> bool:
    """Return whether ``value`` is a finite number; True and text are none."""
    try:
        return not isinstance(value, bool) and math.isfinite(value)  # type: ignore[arg-type]
    except TypeError:
        return False


def require_positive(name: str, value: float) -> float:
    """Return ``value`` if it is finite and above 0, else raise ``UsageError``."""
    if not is_finite(value) or value <= 0:
        raise UsageError(f"{name} = {value!r}: must be a finite number above 0")
    return value


def require_not_negative(name: str, value: float) -> float:
    """Return ``value`` if it is finite and at least 0, else raise ``UsageError``."""
    if not is_finite(value) or value < 0:
        raise UsageError(f"{name} = {value!r}: must be a finite number of at least 0")
    return value


def require_choice(name: str, value: str, allowed: Collection[str]) -> str:
    """Return ``value`` if it is one of ``allowed``, else raise ``UsageError``."""
    if value not in allowed:
        raise UsageError(f"{name} = {value!r}: must be one of {', '.join(map(str, allowed))}")
    return value


def require_distinct(name: str, values: Collection[object]) -> None:
    """Raise ``UsageError`` if ``values`` is empty or holds anything twice."""
    if not values:
        raise UsageError(f"{name} is empty: give at least one value")
    if len(set(values)) != len(values):
        raise UsageError(f"{name} = {list(values)!r}: each value may be given only once")


def require_points(name: str, value: object) -> int:
    """Return ``value`` if clouds have that many points, else raise ``UsageError``."""
    points = require_positive_int(name, value)
    if points > CLOUD_POINTS:
        msg = f"{name} = {points}: the clouds have {CLOUD_POINTS} points, so at most {CLOUD_POINTS}"
        raise UsageError(msg)
    return points


Count = Annotated[int, require_whole]
Points = Annotated[int, require_points]
Seed = Annotated[int, partial(require_whole, most=2**32 - 1)]
Counts = Annotated[tuple[int, ...], ANY_NUMBER]


class Checked:
    """Base of the dataclasses whose fields are checked by their types; see ``check_fields``."""

    def __post_init__(self) -> None:
        """Refuse wrong values."""
        check_fields(self)


def check_fields(config: Any) -> None:  # noqa: ANN401 - any dataclass
    """Raise ``UsageError`` unless every field of a dataclass has a value that its type allows.

    A whole number must be at least 1, a ``float`` finite and above 0, unless the type is
    ``Annotated[T, check]``: then ``check(name, value)`` decides. A tuple holds at least one value
    and each only once, unless it is marked with ``ANY_NUMBER``; all its values are checked. A
    ``Literal`` allows its values, a union with ``None`` also ``None``. Other types allow anything.
    """
    hints = _hints(config.__class__)
    for field in fields(config):
        _check(field.name, getattr(config, field.name), hints[field.name])


_hints = cache(partial(get_type_hints, include_extras=True))


def _check(name: str, value: Any, hint: Any) -> None:  # noqa: ANN401 - of any type
    kind, parts = get_origin(hint), get_args(hint)
    if hint is int:
        require_positive_int(name, value)
    elif hint is float:
        require_positive(name, value)
    elif kind is Literal:
        require_choice(name, value, parts)
    elif parts[1:] == (NoneType,) and value is not None:
        _check(name, value, parts[0])
    elif kind is tuple:
        require_distinct(name, value)
        for item in value:
            _check(name, item, parts[0])
    elif kind is Annotated and parts[1] is ANY_NUMBER:
        for item in value:
            _check(name, item, get_args(parts[0])[0])
    elif kind is Annotated:
        parts[1](name, value)


def unknown(kind: str, name: str, known: Iterable[str], elsewhere: str) -> str:
    """Return a message that suggests at most three similar names, or says where all are listed.

    Args:
        kind: the noun before the name, as in ``artifact``.
        name: the unknown name.
        known: the valid names.
        elsewhere: the command that lists all names, as in ``repro list``.
    """
    names = list(known)
    begun = [one for one in names if name and one.startswith(name)]
    near = begun[:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{elsewhere} lists all"
    return f"no {kind} named {name!r}; {hint}"
