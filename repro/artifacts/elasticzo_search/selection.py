"""Choose the best combination of each grid."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from repro.artifacts.base import Result
from repro.core.errors import ReproError
from repro.measurement.records import Record

Combination = tuple[tuple[str, float], ...]
Group = tuple[str, str, str]
"""Family of tasks, precision and method; its runs share their hyperparameters."""


SearchResult = Record | Result
"""A run, recorded or not recorded yet."""
_STAND_INS = ("shapes40", "shrec11", "modelnet40_hdf5")
"""Sets in the place of ModelNet40, which share their hyperparameters."""
_MAY_DIFFER = ("problem", "start")
"""Settings not searched for that may differ within a group, as it has several tasks, which start
from different runs."""


def group_of(record: SearchResult) -> Group:
    """Return the group whose hyperparameters a record helps to choose."""
    point = record.point
    family = point["dataset"]
    if family in _STAND_INS:
        family = "clouds"
    elif "angle" in point:
        family = f"rotated_{family}"
    return family, point["precision"], point["method"]


def searched(group: Group) -> tuple[str, ...]:
    """Return the names of the hyperparameters to search for in a group."""
    family, precision, method = group
    if precision == "fp32":
        return ("lr",) if method == "full_bp" else ("lr", "clip", "eps")
    perturbation = () if method == "full_bp" else ("r_max",)
    return (*perturbation, "batch") if family.startswith("rotated") else perturbation


def combination(record: SearchResult) -> Combination:
    """Return the hyperparameters of a record."""
    settings = record.metrics["settings"]
    return tuple((name, settings[name]) for name in searched(group_of(record)))


def grids(records: Sequence[SearchResult]) -> dict[Group, dict[Combination, float]]:
    """Return the held-out accuracy of every combination as a fraction, by group.

    A run counts with its accuracy after the last epoch, or 0 if it diverged. The mean is over seeds
    and over the tasks that share their hyperparameters. Records of earlier searches for fewer
    hyperparameters than today's are left out. Of each group only the records with the most epochs
    count, so a longer search replaces a shorter one, and of these those of the engine with the most
    runs.

    Raises:
        ReproError: the runs of a group differ in more settings than the searched hyperparameters,
            so their accuracies cannot be compared.
    """
    groups: dict[Group, list[SearchResult]] = {}
    for record in records:
        if {*searched(group_of(record))} <= record.point.keys():
            groups.setdefault(group_of(record), []).append(record)
    found: dict[Group, dict[Combination, float]] = {}
    for group, runs in groups.items():
        most = max(run.metrics["settings"]["epochs"] for run in runs)
        longest = [run for run in runs if run.metrics["settings"]["epochs"] == most]
        # one engine's, as the noise differs
        engines = Counter(run.metrics["settings"].get("engine") for run in longest)
        [(engine, _)] = engines.most_common(1)
        longest = [run for run in longest if run.metrics["settings"].get("engine") == engine]
        _require_alike(group, longest)
        points: dict[Combination, list[float]] = {}
        for run in longest:
            accuracy = 0.0 if run.metrics["diverged"] else run.metrics["test_accuracy"][-1]
            points.setdefault(combination(run), []).append(accuracy)
        found[group] = {point: fmean(accuracies) for point, accuracies in points.items()}
    return found


def best(records: Sequence[SearchResult]) -> dict[Group, dict[str, Any]]:
    """Return the best combination of every group; among equals, the first in the grid."""
    first = {group: max(grid, key=grid.__getitem__) for group, grid in grids(records).items()}
    return {group: dict(point) for group, point in first.items()}


def _require_alike(group: Group, runs: Sequence[SearchResult]) -> None:
    settings = [record.metrics["settings"] for record in runs]
    names = {name for each in settings for name in each}
    for name in sorted(names - {*_MAY_DIFFER, *searched(group)}):
        values = list(dict.fromkeys(str(each.get(name)) for each in settings))
        if len(values) > 1:
            raise ReproError(
                f"the search over {' '.join(group)} holds runs with {name} = "
                f"{' and '.join(values)}: they cannot be compared; run the whole group again "
                "with one configuration, and move the other records away"
            )
