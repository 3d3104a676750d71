"""Runs on clouds of several lengths: a shorter one is the beginning of a longer one.

Their learning rate is set epoch by epoch, so the number of epochs does not change a run's course.
On images it may: in integers, sparsity and gradient bits follow the share of the epochs done.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

_CURVES = ("test_accuracy", "test_loss", "train_loss")
"""They start before the first epoch."""


def epochs_of(metrics: Mapping[str, Any]) -> int:
    """Return the number of epochs in a run's settings; 0 where they have none."""
    return int(metrics["settings"].get("epochs", 0))


def is_course(settings: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether these are settings of a run on clouds."""
    return isinstance(settings, Mapping) and "points" in settings and "epochs" in settings


def course_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide a run's course: on clouds all but the number of epochs."""
    course = dict(settings)
    if is_course(settings):
        del course["epochs"]
    return course


def beginning_of(metrics: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """Return the metrics of the first ``epochs`` epochs, from those of a run at least as long."""
    found = dict(metrics)
    if epochs == epochs_of(metrics):
        return found
    for name in _CURVES:
        found[name] = found[name][: epochs + 1]
    found["seconds"] = found["seconds"][:epochs]
    if len(found["seconds"]) == epochs:  # whatever ended the run came later
        found["diverged"] = False
        if "divergence" in found:
            found["divergence"] = ""
    found["settings"] = {**found["settings"], "epochs": epochs}
    return found
