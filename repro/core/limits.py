"""Limits of settings, for configurations to check before anything heavy is imported."""

from collections.abc import Collection

from repro.core.errors import UsageError
from repro.core.validation import require_distinct, require_positive_int, require_whole

CLOUD_POINTS = 1024
"""Number of points in each cloud, the same in every point-cloud data set."""
LARGEST_SEED = 2**32 - 1


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
