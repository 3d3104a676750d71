"""Which combination of the grid is the best."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Protocol

from repro.core.errors import ReproError

Combination = tuple[tuple[str, float], ...]
Group = tuple[str, str, str]
"""Family of problems, precision and method, that share their hyperparameters."""


class Run(Protocol):
    """What the choice depends on: of a record, or of a result that is none yet."""

    @property
    def point(self) -> Mapping[str, Any]:
        """Coordinates."""

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Curves and settings."""


_MAY_DIFFER = ("problem", "start")
"""Settings not searched for that may differ within a group: its problems, and what they start from,
are several."""
_STAND_INS = ("modelnet40_hdf5", "shrec11", "shapes40")
"""Sets of clouds in the place of ModelNet40, which share their hyperparameters."""


def group_of(record: Run) -> Group:
    """Return what a record's hyperparameters are chosen for."""
    point = record.point
    family = point["dataset"]
    if family in _STAND_INS:
        family = "clouds"
    elif "angle" in point:
        family = f"rotated_{family}"
    return family, point["precision"], point["method"]


def searched(group: Group) -> tuple[str, ...]:
    """Return the names of the hyperparameters that are searched for in a group."""
    family, precision, method = group
    if precision == "fp32":
        return ("lr",) if method == "full_bp" else ("lr", "clip", "eps")
    perturbation = () if method == "full_bp" else ("r_max",)
    return (*perturbation, "batch") if family.startswith("rotated") else perturbation


def combination(record: Run) -> Combination:
    """Return the hyperparameters of a record."""
    settings = record.metrics["settings"]
    return tuple((name, settings[name]) for name in searched(group_of(record)))


def accuracy(records: Iterable[Run]) -> float:
    """Return the mean accuracy after the last epoch, as a fraction; 0 if a run diverged."""
    return fmean(
        0.0 if record.metrics["diverged"] else record.metrics["test_accuracy"][-1]
        for record in records
    )


def grids(records: Sequence[Run]) -> dict[Group, dict[Combination, float]]:
    """Return the held-out accuracy of every combination, by group.

    It is the mean over seeds, and over the problems that share their hyperparameters. Records of a
    search for fewer hyperparameters than are searched for in their group now are left out, and so
    are those of fewer epochs than the group's longest: a longer search takes a shorter one's place.

    Raises:
        ReproError: the runs of a group were trained differently in more than the searched
            hyperparameters, so that their accuracies do not say which of those is the best.
    """
    groups: dict[Group, list[Run]] = {}
    for record in filter(_is_of_this_search, records):
        groups.setdefault(group_of(record), []).append(record)
    longest = {group: _longest(runs) for group, runs in groups.items()}
    for group, runs in longest.items():
        _require_alike(group, runs)
    return {group: _grid(runs) for group, runs in longest.items()}


def best(records: Sequence[Run]) -> dict[Group, dict[str, Any]]:
    """Return the best combination of every group; of equals, the first in the grid."""
    return {group: dict(_first_best(grid)) for group, grid in grids(records).items()}


def _is_of_this_search(record: Run) -> bool:
    return {*searched(group_of(record))} <= record.point.keys()


def _longest(runs: Sequence[Run]) -> list[Run]:
    most = max(run.metrics["settings"]["epochs"] for run in runs)
    return [run for run in runs if run.metrics["settings"]["epochs"] == most]


def _grid(runs: Sequence[Run]) -> dict[Combination, float]:
    points: dict[Combination, list[Run]] = {}
    for run in runs:
        points.setdefault(combination(run), []).append(run)
    return {point: accuracy(found) for point, found in points.items()}


def _require_alike(group: Group, runs: Sequence[Run]) -> None:
    settings = [record.metrics["settings"] for record in runs]
    names = {name for each in settings for name in each}
    for name in sorted(names - {*_MAY_DIFFER, *searched(group)}):
        values = list(dict.fromkeys(str(each.get(name)) for each in settings))
        if len(values) > 1:
            msg = (
                f"the search over {' '.join(group)} holds runs with {name} = "
                f"{' and '.join(values)}: they cannot be compared; run the whole group again "
                "with one configuration, and move the other records away"
            )
            raise ReproError(msg)


def _first_best(grid: Mapping[Combination, float]) -> Combination:
    return max(grid, key=lambda point: grid[point])
