"""Which combination of the grid is the best."""

from collections.abc import Mapping, Sequence
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


def grids(records: Sequence[Run]) -> dict[Group, dict[Combination, float]]:
    """Return the held-out accuracy of every combination as a fraction, by group.

    It is that after the last epoch, 0 if a run diverged: the mean over seeds, and over the problems
    that share their hyperparameters. Records of a search for fewer hyperparameters than are
    searched for in their group now are left out, and so are those of fewer epochs than the group's
    longest: a longer search takes a shorter one's place.

    Raises:
        ReproError: the runs of a group were trained differently in more than the searched
            hyperparameters, so that their accuracies do not say which of those is the best.
    """
    groups: dict[Group, list[Run]] = {}
    for record in records:
        if {*searched(group_of(record))} <= record.point.keys():
            groups.setdefault(group_of(record), []).append(record)
    found: dict[Group, dict[Combination, float]] = {}
    for group, runs in groups.items():
        most = max(run.metrics["settings"]["epochs"] for run in runs)
        longest = [run for run in runs if run.metrics["settings"]["epochs"] == most]
        _require_alike(group, longest)
        points: dict[Combination, list[float]] = {}
        for run in longest:
            accuracy = 0.0 if run.metrics["diverged"] else run.metrics["test_accuracy"][-1]
            points.setdefault(combination(run), []).append(accuracy)
        found[group] = {point: fmean(accuracies) for point, accuracies in points.items()}
    return found


def best(records: Sequence[Run]) -> dict[Group, dict[str, Any]]:
    """Return the best combination of every group; of equals, the first in the grid."""
    first = {group: max(grid, key=grid.__getitem__) for group, grid in grids(records).items()}
    return {group: dict(point) for group, point in first.items()}


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
